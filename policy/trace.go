package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
)

// Trace is what a policy makes of a request before it asks a store: for those who
// want to know which rules are met, and why the others are not. Unlike an Explain it holds
// what the request says, its keys too.
type Trace struct {
	// Host, Path and ClientIP are those of the request, cleaned.
	Host, Path string
	ClientIP   netip.Addr
	// Others are other paths that services take Path for, which count as well: see Paths. Most requests
	// have none.
	Others []string
	// Class and Bypass are as in a Verdict.
	Class  string
	Bypass bool
	// Rules are all rules of the policy, in their order.
	Rules []TracedRule
	// Default is what becomes of a request that no rule matches.
	Default Action
	// Stray is the one of Path and Others that no rule matches, for which the Default refuses a
	// request that meets rules otherwise. Empty if there is none.
	Stray string
}

// Met reports whether the request meets a rule.
func (t *Trace) Met() bool {
	for i := range t.Rules {
		if t.Rules[i].Unmet == "" {
			return true
		}
	}
	return false
}

// TracedRule is what one rule makes of a request.
type TracedRule struct {
	Rule *Rule
	// Unmet says in words which condition failed first, as in "the method GET is
	// not POST". It is empty if the request meets the rule.
	Unmet string
	// Path is the first of the paths by which the request meets the rule. Key and Met are for that
	// one; another key that another path has is asked about too.
	Path string
	// Denied says why the rule does not let the request pass as it is, whatever its limits say;
	// ReasonNone if it asks them.
	Denied sluice.Reason
	// Key are the parts of the key, with the values that the request has for them.
	Key []KeyValue
	// Met are the questions to the store about the rule's limits, undecided.
	Met []LimitResult
}

// KeyValue is a part of a key and its value, as the key holds it. OK is false if the
// request lacks the part.
type KeyValue struct {
	Part  Part
	Value string
	OK    bool
}

// Trace tells rule by rule what the policy makes of a request. It asks no store, so
// that a request counts as marked only if an earlier hop has marked it.
func (p *Policy) Trace(a *Attributes) Trace {
	s := newScratch()
	defer s.free()
	var v Verdict
	bypass := p.begin(s, a, &v)
	clean := s.attributes
	t := Trace{Host: clean.Host, Path: clean.Path, ClientIP: clean.ClientIP, Class: v.Class, Bypass: bypass, Default: p.fallback}
	t.Rules = make([]TracedRule, len(p.rules))
	for i := range s.readings {
		p.turn(s, i)
		if i > 0 {
			t.Others = append(t.Others, s.attributes.Path)
		}
		p.traceReading(&t, s, a)
	}
	if p.fallback != Deny || !t.Met() {
		t.Stray = ""
	}
	t.tellMarks()
	return t
}

// traceReading tells rule by rule what the policy makes of one reading of the path.
func (p *Policy) traceReading(t *Trace, s *scratch, a *Attributes) {
	bypass, met := p.bypasses(s.matching.class), false
	patterns := make(map[int]int, len(p.rules))
	for _, e := range p.index.find(&s.attributes, nil) {
		patterns[e.rule()] = e.pattern()
	}
	for i, r := range p.rules {
		tr := TracedRule{Rule: &r.Rule}
		if bypass {
			tr.Unmet = fmt.Sprintf("class %s meets no rule", s.matching.name)
		} else if tr.Unmet = r.match.unmet(&s.matching); tr.Unmet == "" {
			tr.Path = s.attributes.Path
			p.traceMet(&tr, r, a, s.reading, patterns[i])
		}
		met = met || tr.Unmet == ""
		if s.reading == 0 || tr.Unmet == "" && t.Rules[i].Unmet != "" {
			t.Rules[i] = tr
		}
	}
	if !bypass && !met && t.Stray == "" {
		t.Stray = s.attributes.Path
	}
}

const notMarked = "the request is not marked"

// tellMarks says of rules that are not met for want of a mark which one may set it.
func (t *Trace) tellMarks() {
	i := slices.IndexFunc(t.Rules, func(r TracedRule) bool {
		return r.Unmet == "" && r.Rule.WhenLimited.Action == Mark && !r.Rule.Shadow
	})
	if i < 0 {
		return
	}
	for j := range t.Rules {
		if r := &t.Rules[j]; r.Unmet == notMarked {
			r.Unmet += fmt.Sprintf(", unless rule %s does so", t.Rules[i].Rule.Name)
		}
	}
}

// traceMet fills in what a rule asks about a request that it matches.
func (p *Policy) traceMet(tr *TracedRule, r *rule, a *Attributes, reading, pattern int) {
	s := newScratch()
	defer s.free()
	s.peek, s.listsToo = true, true
	p.begin(s, a, new(Verdict))
	p.turn(s, reading)
	for i := range r.parts {
		value := r.valueOf(&r.parts[i], &s.attributes, pattern)
		s.values = append(s.values, value)
		text := value.text
		if value.addr.IsValid() {
			text = string(appendAddress(nil, value.addr, r.parts[i].IPv6Prefix))
		}
		tr.Key = append(tr.Key, KeyValue{Part: r.parts[i], Value: text, OK: value.ok})
	}
	if denied := s.add(r, s.class, r.Cost.of(&s.attributes), s.attributes.MaxWait); denied != nil {
		tr.Denied = denied.Reason
		return
	}
	for _, k := range tr.Key {
		switch {
		case k.OK || k.Part.OnMissing == MissingShared:
			continue
		case k.Part.OnMissing == MissingSkip:
			tr.Unmet = fmt.Sprintf("the key's part %s is missing, and such requests skip the rule", k.Part)
		default:
			tr.Denied = sluice.ReasonMissingKey // of a rule that degrades or marks
		}
		return
	}
	s.fill(false)
	tr.Met = s.met()
	if len(tr.Met) > 0 && tr.Met[0].Listed == ListDeny {
		tr.Denied = tr.Met[0].Decision.Reason
	}
}

// unmet says which condition of a match a request fails first, "" if it meets all.
// It agrees with matchesAll.
func (m *matcher) unmet(a *matching) string {
	switch {
	case !m.matchesHost(a.Host):
		return fmt.Sprintf("the host %q is %s", a.Host, among(m.hosts))
	case !m.matchesPath(a.Path):
		var texts []string
		for i := range m.patterns {
			texts = append(texts, m.patterns[i].text)
		}
		return fmt.Sprintf("the path %s is %s", a.Path, among(texts))
	case len(m.methods) > 0 && !slices.Contains(m.methods, a.Method):
		return fmt.Sprintf("the method %s is %s", a.Method, among(m.methods))
	case len(m.classes) > 0 && !slices.Contains(m.classes, a.class):
		if a.name == "" {
			return "the request is of no class"
		}
		return fmt.Sprintf("the class %s is another one", a.name)
	case m.marked != nil && *m.marked && !a.marked:
		return notMarked
	case m.marked != nil && *m.marked != a.marked:
		return "the request is marked"
	}
	for i := range m.values {
		if !m.values[i].matches(a.Attributes) {
			return m.values[i].unmet(a.Attributes)
		}
	}
	if m.clients != nil && !m.clients.contains(a.ClientIP) {
		if !a.ClientIP.IsValid() {
			return "the address of the client is unknown"
		}
		return fmt.Sprintf("the client %s is in none of the networks", a.ClientIP)
	}
	for _, c := range m.also {
		if !a.meets(c) {
			if named, ok := c.(fmt.Stringer); ok {
				return fmt.Sprintf("the condition does not hold: %s", named)
			}
			return "a condition does not hold"
		}
	}
	if m.of != "" {
		if a.pressure == nil {
			return fmt.Sprintf("the pressure on rule %s is unknown, and is to be %v or more", m.of, m.pressure)
		}
		if now := a.pressure(m.of); now < m.pressure {
			return fmt.Sprintf("the pressure on rule %s is %v, and is to be %v or more", m.of, now, m.pressure)
		}
	}
	for i, u := range m.unless {
		if u.matchesAll(a) {
			if len(m.unless) == 1 {
				return "its exception is for the request"
			}
			return fmt.Sprintf("exception %d of %d is for the request", i+1, len(m.unless))
		}
	}
	return ""
}

func (m *valueMatcher) unmet(a *Attributes) string {
	v, ok := a.value(m.source, m.Name)
	switch {
	case !ok:
		return fmt.Sprintf("the %s %s is missing", nouns[m.source], m.Name)
	case m.Absent:
		return fmt.Sprintf("the %s %s is there", nouns[m.source], m.Name)
	}
	var wanted []string
	for _, text := range m.OneOf {
		wanted = append(wanted, fmt.Sprintf("%q", text))
	}
	for _, text := range m.Prefixes {
		wanted = append(wanted, fmt.Sprintf("%q…", text))
	}
	return fmt.Sprintf("the %s %s is %q, %s", nouns[m.source], m.Name, v, among(wanted))
}

// nouns are what values of a source are called.
var nouns = map[Source]string{FromHeader: "header", FromCookie: "cookie", FromQuery: "parameter", FromAttribute: "attribute"}

// mostNamed is how many alternatives are told.
const mostNamed = 5

// among says that something is none of some texts.
func among(texts []string) string {
	switch {
	case len(texts) == 1:
		return "not " + texts[0]
	case len(texts) > mostNamed:
		return fmt.Sprintf("none of %s and %d more", strings.Join(texts[:mostNamed], ", "), len(texts)-mostNamed)
	}
	return "none of " + strings.Join(texts, ", ")
}
