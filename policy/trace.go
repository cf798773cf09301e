package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
)

// Trace explains how a policy matches a request, before it calls a store. It has the rules that the
// request matches, and for each other rule the condition that fails. A Trace is data; programs put it
// into words. Unlike a Verdict it contains values of the request, keys included.
type Trace struct {
	// Method, Host, Path and ClientIP describe the request, cleaned.
	Method, Host, Path string
	ClientIP           netip.Addr
	// Variants are the other variants of Path: see Paths. Most requests have none.
	Variants []string
	// Class and Bypass are as in a Verdict.
	Class  string
	Bypass bool
	// Rules are all rules of the policy, in their order.
	Rules []TracedRule
	// Default is the action for a request that no rule matches.
	Default Action
	// Refused is why the policy refuses the request whatever its rules say: see Verdict.Refused. Nil if it
	// does not.
	Refused error
	// Stray is the path variant that no rule matches, if the Default refuses the request because of it
	// although other variants match rules. Empty if there is none.
	Stray string
}

// Matches reports whether the request matches a rule.
func (t *Trace) Matches() bool {
	return slices.ContainsFunc(t.Rules, func(r TracedRule) bool { return r.Unmet == nil })
}

// TracedRule explains how one rule matches a request.
type TracedRule struct {
	// Rule is the rule.
	Rule *Rule
	// Unmet is the first condition that fails; nil if the request matches the rule.
	Unmet *condition.Unmet
	// Path is the first path variant that matches the rule. Key and Results are for that variant; a decision
	// also counts for the keys of other variants.
	Path string
	// Denied is the reason why the rule limits the request whatever its limits decide; ReasonNone if
	// the limits decide.
	Denied sluice.Reason
	// Key holds the parts of the key, with the values that the request has for them.
	Key []KeyValue
	// Plan is the part that names the plan of the request, with its value. OK is false without a plan of the policy.
	// Nil if the rule has no numbers by plan, or requests name none.
	Plan *KeyValue
	// Ahead is the allowance of the key, which pays for what the limits lack; nil for none.
	Ahead *Allowance
	// Results are the requests to the store about the rule's limits, undecided.
	Results []LimitResult
}

// KeyValue is a part of a key and its value, as the key holds it. OK is false if the request lacks the
// part. Repeated means that the request has the part several times, or in a spelling that not all services
// read, and the part does not say which value counts.
type KeyValue struct {
	// Part is the part, and Value is its value in the request.
	Part  Part
	Value string
	// OK says that the request has the part, and Repeated that it has it several times or in an unclear spelling.
	OK       bool
	Repeated bool
}

// Trace explains, rule by rule, how the policy matches a request. It calls no store, so a request
// counts as marked only if an earlier hop has marked it.
func (p *Policy) Trace(a *Attributes) Trace {
	s := newScratch()
	defer s.free()
	var v Verdict
	p.begin(s, a, &v)
	clean := s.attributes
	t := Trace{
		Method: clean.Method, Host: clean.Host, Path: clean.Path, ClientIP: clean.ClientIP,
		Class: v.Class, Bypass: v.Bypass, Default: p.fallback, Refused: v.Refused,
	}
	t.Rules = make([]TracedRule, len(p.rules))
	for i := range s.variants {
		p.turn(s, i)
		if i > 0 {
			t.Variants = append(t.Variants, s.attributes.Path)
		}
		p.traceVariant(&t, s, a)
	}
	if p.fallback != Deny || !t.Matches() {
		t.Stray = ""
	}
	t.nameMarkers()
	return t
}

// traceVariant adds, rule by rule, how the policy matches one path variant.
func (p *Policy) traceVariant(t *Trace, s *scratch, a *Attributes) {
	bypass, met := p.bypasses(s.matching.class), false
	patterns := make(map[int]int, len(p.rules))
	for _, e := range p.index.find(&s.attributes, s.variants[s.variant].merged, nil) {
		patterns[e.rule()] = e.pattern()
	}
	for i, r := range p.rules {
		tr := TracedRule{Rule: &r.Rule}
		if bypass {
			tr.Unmet = &condition.Unmet{Condition: condition.Bypass, Name: s.matching.name}
		} else if d := r.Match.Descriptor; d != nil {
			tr.Unmet = &condition.Unmet{Condition: condition.Descriptor, Name: d.Domain}
		} else if tr.Unmet = r.match.unmet(&s.matching, s.variants[s.variant].merged); tr.Unmet == nil {
			tr.Path = s.attributes.Path
			p.traceMet(&tr, r, a, s.variant, patterns[i])
		}
		met = met || tr.Unmet == nil && r.match.matches(&s.matching) == yes && r.match.matchesPath(s.attributes.Path)
		if s.variant == 0 || tr.Unmet == nil && t.Rules[i].Unmet != nil {
			t.Rules[i] = tr
		}
	}
	if !bypass && !met && t.Stray == "" {
		t.Stray = s.attributes.Path
	}
}

// nameMarkers names the first rule that may mark the request, in the conditions that fail because it is
// not marked.
func (t *Trace) nameMarkers() {
	i := slices.IndexFunc(t.Rules, func(r TracedRule) bool {
		return r.Unmet == nil && r.Rule.WhenLimited.Action == Mark && !r.Rule.Shadow
	})
	if i < 0 {
		return
	}
	for j := range t.Rules {
		if u := t.Rules[j].Unmet; u != nil && u.Condition == condition.Marked {
			u.Name = t.Rules[i].Rule.Name
		}
	}
}

// traceMet fills in the key and the limits of a rule that the request matches.
func (p *Policy) traceMet(tr *TracedRule, r *rule, a *Attributes, variant, pattern int) {
	s := newScratch()
	defer s.free()
	s.peek, s.listsToo = true, true
	p.begin(s, a, new(Verdict))
	p.turn(s, variant)
	s.read(r, pattern)
	for i, value := range s.values {
		tr.Key = append(tr.Key, KeyValue{Part: r.parts[i], Value: value.String(), OK: value.OK, Repeated: value.Repeated})
	}
	if f := r.planFrom; f != nil && r.byPlan {
		v := f.read(r, &s.attributes)
		tr.Plan = &KeyValue{Part: f.part, Value: v.Text, OK: f.numbers[v.Text] > 0, Repeated: v.Repeated}
	}
	if denied := s.add(r, s.class, s.costOf(r, &s.attributes), s.attributes.MaxWait); denied != nil {
		tr.Denied = denied.Reason
		return
	}
	for _, k := range tr.Key {
		switch {
		case k.OK || !k.Repeated && k.Part.OnMissing == MissingShared || k.Repeated && k.Part.OnRepeated == RepeatedShared:
			continue
		case k.Repeated:
			tr.Denied = sluice.ReasonRepeatedKey // the rule degrades or marks
		case k.Part.OnMissing == MissingSkip:
			tr.Unmet = &condition.Unmet{Condition: condition.Key, Name: k.Part.String(), Missing: true}
		default:
			tr.Denied = sluice.ReasonMissingKey // the rule degrades or marks
		}
		return
	}
	for i := range s.selected {
		if x := s.selected[i].allowance; x != nil && !s.selected[i].fixed() {
			tr.Ahead = &x.Allowance
		}
	}
	s.fill(false)
	tr.Results = s.results()
	if len(tr.Results) > 0 && tr.Results[0].Decision.Reason != sluice.ReasonNone {
		tr.Denied = tr.Results[0].Decision.Reason
	}
}

// unmet explains which condition of a match a request with a path fails first; nil if it fails none.
func (m *matcher) unmet(a *matching, merged string) *condition.Unmet {
	switch {
	case !m.matchesHost(a.Host):
		return &condition.Unmet{Condition: condition.Host, Value: a.Host, OneOf: slices.Clone(m.hosts)}
	case !m.matchesPath(merged):
		u := &condition.Unmet{Condition: condition.Path, Value: a.Path}
		for i := range m.patterns {
			u.OneOf = append(u.OneOf, m.patterns[i].Text)
		}
		return u
	}
	met, f := m.walk(a)
	if met != no {
		return nil
	}
	u := &condition.Unmet{Condition: f.condition}
	switch f.condition {
	case condition.Method:
		u.Value, u.OneOf = a.Method, slices.Clone(m.methods)
	case condition.Class:
		u.Value, u.Missing = a.name, a.name == ""
	case condition.ClientIP:
		if u.Missing = !a.ClientIP.IsValid(); !u.Missing {
			u.Value = a.ClientIP.String()
		}
	case condition.If:
		if named, ok := m.also[f.index].(fmt.Stringer); ok {
			u.Name = named.String()
		}
	case condition.Pressure:
		u.Name, u.AtLeast = m.of, m.pressure
		if u.Missing = a.pressure == nil; !u.Missing {
			u.Pressure = f.pressure
		}
	case condition.Unless:
		u.Exception, u.Exceptions = f.index+1, len(m.unless)
	case condition.Header, condition.Cookie, condition.Query, condition.Attribute:
		v := &m.values[f.index]
		r := a.Read(v.source, v.Name)
		u.Name, u.Value, u.Missing = v.Name, r.First, r.Count == CountNone
		u.OneOf, u.Prefixes = slices.Clone(v.OneOf), slices.Clone(v.Prefixes)
	}
	return u
}

// DescriptorTrace explains how a policy matches a descriptor, before it calls a store. Unlike a verdict it contains
// values of the descriptor, keys included.
type DescriptorTrace struct {
	// Known says that the domain exists.
	Known bool
	// Steps are the entries, up to the first entry that no rule has.
	Steps []descriptors.Step
	// Rule is the rule that applies; nil for none. If all entries match and Rule is nil, no rule ends there.
	Rule *Rule
	// Key holds the parts of the key, with their values.
	Key []KeyValue
	// Results are the requests to the store about the rule's limits, undecided.
	Results []LimitResult
	// Denied is the reason why the rule limits the descriptor whatever its limits decide.
	Denied sluice.Reason
}

// TraceDescriptor explains how the policy matches a descriptor of a domain. It calls no store.
func (p *Policy) TraceDescriptor(domain string, entries []descriptors.Entry) DescriptorTrace {
	d := p.domains[domain]
	t := DescriptorTrace{Known: d != nil}
	if d == nil {
		return t
	}
	n := &d.rules
	for _, e := range entries {
		step := descriptors.Step{Entry: e}
		if n = n.Follow(e.Key, e.Value); n != nil {
			step.Matches, step.Value = true, n.Value
		}
		t.Steps = append(t.Steps, step)
		if n == nil {
			return t
		}
	}
	r := n.Leaf
	if r == nil {
		return t
	}
	t.Rule = &r.Rule
	s := newScratch()
	defer s.free()
	s.peek = true
	q := []descriptors.Request{{Entries: entries, Cost: 1}}
	v := DescriptorVerdict{Descriptors: make([]DescriptorResult, 1)}
	c := call{scratch: s, domain: d, requests: q, v: &v}
	c.match()
	for i := range r.parts {
		part := r.parts[i]
		value := part.Name
		if part.Source == source.Descriptor {
			value = entries[r.entries[i]].Value
		}
		t.Key = append(t.Key, KeyValue{Part: part, Value: value, OK: true})
	}
	if len(s.selected) > 0 {
		s.fill(false)
		t.Results = s.results()
		t.Denied = s.selected[0].reason
	}
	return t
}
