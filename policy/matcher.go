package policy

import (
	"fmt"
	"math"
	"net/textproto"
	"slices"
	"strings"
)

// matcher is a Match, checked and ready to match.
type matcher struct {
	patterns []pattern // at least one
	methods  []string
	hosts    []string
	values   []valueMatcher
	clients  *ipSet
	classes  []int // by number
	marked   *bool
	pressure float64
	of       string // the rule whose pressure counts
	also     []Matcher
	unless   []*matcher
	// usesMark says that the match, or one of its exceptions, depends on marks.
	usesMark bool
	// plain says that the index checks the whole match.
	plain bool
	// descriptor says that the match is for descriptors.
	descriptor bool
}

// valueMatcher is a ValueMatch, and where the value comes from.
type valueMatcher struct {
	source Source
	ValueMatch
}

// matching is a request with what matchers need besides its attributes.
type matching struct {
	*Attributes
	class int // its number, or noClass
	// unsure means that services may read different values, and that the class depends on the value. class is
	// noClass then.
	unsure   bool
	name     string
	marked   bool // by an earlier hop or a rule
	pressure func(rule string) float64
}

// newMatcher checks a match and returns its matcher. The names of faulty fields are reported with the
// prefix at.
func (c *compiler) newMatcher(m *Match, at string) *matcher {
	r := &matcher{also: m.If, marked: m.Marked, usesMark: m.Marked != nil, descriptor: m.Descriptor != nil}
	for i, text := range m.Paths {
		p, f := parsePattern(text, c.options.Paths)
		if f != (fault{}) {
			c.report(fmt.Sprintf("%sPaths[%d]", at, i), text, f)
		}
		r.patterns = append(r.patterns, p)
	}
	if len(m.Paths) == 0 {
		r.patterns = []pattern{everything}
	}
	for i, method := range m.Methods {
		if f := checkMethod(method); f != (fault{}) {
			c.report(fmt.Sprintf("%sMethods[%d]", at, i), method, f)
		}
		r.methods = append(r.methods, method)
		if method == "GET" {
			r.methods = append(r.methods, "HEAD")
		}
	}
	for i, host := range m.Hosts {
		if f := checkHost(host); f != (fault{}) {
			c.report(fmt.Sprintf("%sHosts[%d]", at, i), host, f)
		}
		r.hosts = append(r.hosts, CleanHost(host))
	}
	c.addValues(r, FromHeader, at+"Headers", m.Headers)
	c.addValues(r, FromCookie, at+"Cookies", m.Cookies)
	c.addValues(r, FromQuery, at+"Queries", m.Queries)
	c.addValues(r, FromAttribute, at+"Attributes", m.Attributes)
	c.checkNetworks(at+"ClientIPs", m.ClientIPs)
	r.clients = newIPSet(m.ClientIPs)
	for i, name := range m.Classes {
		number, known := c.classes[name]
		if !known {
			c.report(fmt.Sprintf("%sClasses[%d]", at, i), name, fault{"is not a class of the policy", "give the name of one"})
		}
		r.classes = append(r.classes, number)
	}
	c.addPressure(r, m, at)
	for i, also := range m.If {
		if also == nil {
			c.report(fmt.Sprintf("%sIf[%d]", at, i), "", fault{"is nil", "leave it out"})
		}
		if stateful, ok := also.(StateMatcher); ok {
			marks, pressures := stateful.Uses()
			r.usesMark = r.usesMark || marks
			for _, of := range pressures {
				c.pressures = append(c.pressures, pressureOf{c.index, c.rule, fmt.Sprintf("%sIf[%d]", at, i), of})
			}
		}
	}
	if r.descriptor && at != "Match." {
		c.report(at+"Descriptor", "", fault{"is for rules, and neither for classes nor for exceptions", "leave it out"})
	}
	for i := range m.Unless {
		u := c.newMatcher(&m.Unless[i], fmt.Sprintf("%sUnless[%d].", at, i))
		if u.plain && len(m.Unless[i].Paths)+len(m.Unless[i].Hosts) == 0 {
			c.report(fmt.Sprintf("%sUnless[%d]", at, i), "", fault{"matches every request, so nothing is left", "say which requests to leave out"})
		}
		r.unless = append(r.unless, u)
		r.usesMark = r.usesMark || u.usesMark
	}
	r.plain = len(r.methods)+len(r.values)+len(r.classes)+len(r.also)+len(r.unless) == 0 &&
		r.clients == nil && r.marked == nil && r.of == ""
	return r
}

// addValues checks conditions on values of one source.
func (c *compiler) addValues(r *matcher, s Source, field string, conditions []ValueMatch) {
	for i, v := range conditions {
		at := fmt.Sprintf("%s[%d]", field, i)
		if f := checkValueName(s, v.Name); f != (fault{}) {
			c.report(at, v.Name, f)
		}
		if v.Absent && len(v.OneOf)+len(v.Prefixes) > 0 {
			c.report(at, v.Name, fault{"must be absent and have a value", "give one of the two conditions"})
		}
		if s == FromHeader {
			v.Name = textproto.CanonicalMIMEHeaderKey(v.Name)
		}
		v.OneOf, v.Prefixes = cleanAll(s, v.Name, v.OneOf), cleanPrefixes(s, v.Name, v.Prefixes)
		r.values = append(r.values, valueMatcher{s, v})
	}
}

// addPressure checks the condition on pressure. checkPressures checks the name of the rule when all
// rules are known.
func (c *compiler) addPressure(r *matcher, m *Match, at string) {
	switch {
	case m.Pressure == 0 && m.PressureOf == "":
		return
	case m.Pressure <= 0 || math.IsNaN(m.Pressure) || math.IsInf(m.Pressure, 0):
		c.report(at+"Pressure", "", is(m.Pressure, "give a number above 0, such as 0.9 for nine tenths of what the rule gives"))
	case m.PressureOf == "":
		c.report(at+"PressureOf", "", fault{"is missing", "give the name of the rule whose pressure counts"})
	default:
		c.pressures = append(c.pressures, pressureOf{c.index, c.rule, at + "PressureOf", m.PressureOf})
	}
	r.pressure, r.of = m.Pressure, m.PressureOf
}

// pressureOf is a reference to a rule, which is checked when all rules are known.
type pressureOf struct {
	index       int
	rule, field string
	of          string
}

// checkPressures checks the rules whose pressure others use.
func (c *compiler) checkPressures(p *Policy) {
	for _, q := range c.pressures {
		c.index, c.rule = q.index, q.rule
		switch {
		case q.index >= 0 && q.of == q.rule:
			c.report(q.field, q.of, fault{"is the rule itself, which has no pressure while it matches no request", "give another rule"})
		case p.byName[q.of] == nil:
			c.report(q.field, q.of, fault{"is not a rule of the policy", "give the name of one"})
		}
	}
}

// matches checks the conditions that the index does not check.
func (m *matcher) matches(a *matching) truth {
	if m.plain {
		return yes
	}
	met, _ := m.walk(a)
	return met
}

// failure is the first condition of a match that a request fails, and which one of its kind it is.
type failure struct {
	condition Condition
	index     int
	pressure  float64 // that the condition on pressure found
}

// walk checks the conditions that the index does not check, in the order of the constants of Condition. If the result
// is no, failure is the condition that fails.
func (m *matcher) walk(a *matching) (met truth, f failure) {
	if len(m.methods) > 0 && !slices.Contains(m.methods, a.Method) {
		return no, failure{condition: ConditionMethod}
	}
	met = yes
	if len(m.classes) > 0 {
		if met = a.isOf(m.classes); met == no {
			return no, failure{condition: ConditionClass}
		}
	}
	if m.marked != nil && *m.marked != a.marked {
		if *m.marked {
			return no, failure{condition: ConditionMarked}
		}
		return no, failure{condition: ConditionUnmarked}
	}
	for i := range m.values {
		if met = min(met, m.values[i].matches(a.Attributes)); met == no {
			return no, failure{condition: sourceConditions[m.values[i].source], index: i}
		}
	}
	if m.clients != nil && !m.clients.contains(a.ClientIP) {
		return no, failure{condition: ConditionClientIP}
	}
	for i, c := range m.also {
		if met = min(met, a.fulfills(c)); met == no {
			return no, failure{condition: ConditionIf, index: i}
		}
	}
	if m.of != "" {
		f := failure{condition: ConditionPressure}
		if a.pressure != nil {
			f.pressure = a.pressure(m.of)
		}
		if a.pressure == nil || f.pressure < m.pressure {
			return no, f
		}
	}
	for i, u := range m.unless {
		if met = min(met, yes-u.matchesAll(a)); met == no {
			return no, failure{condition: ConditionUnless, index: i}
		}
	}
	return met, f
}

// isOf reports whether the class of a request is one of some.
func (a *matching) isOf(classes []int) truth {
	if a.unsure {
		return maybe
	}
	return truthOf(slices.Contains(classes, a.class))
}

// fulfills reports whether a request fulfills a condition.
func (a *matching) fulfills(c Matcher) truth {
	stateful, ok := c.(StateMatcher)
	if !ok {
		return truthOf(c.Matches(a.Attributes))
	}
	state := State{Class: a.name, ClassUnclear: a.unsure, Marked: a.marked, Pressure: a.pressure}
	careful, ok := stateful.(CertainMatcher)
	if !ok {
		return truthOf(stateful.MatchesState(a.Attributes, state))
	}
	matches, certain := careful.MatchesCertainly(a.Attributes, state)
	if !certain {
		return maybe
	}
	return truthOf(matches)
}

// matchesAll checks all conditions, for matches that are in no index.
func (m *matcher) matchesAll(a *matching) truth {
	if !m.matchesHost(a.Host) || !m.matchesPath(a.Path) {
		return no
	}
	return m.matches(a)
}

func (m *matcher) matchesHost(host string) bool {
	if len(m.hosts) == 0 {
		return true
	}
	for _, h := range m.hosts {
		if end, wild := strings.CutPrefix(h, "*"); h == host || wild && len(host) > len(end) && strings.HasSuffix(host, end) {
			return true
		}
	}
	return false
}

func (m *matcher) matchesPath(path string) bool {
	if path == "/" {
		path = ""
	}
	for i := range m.patterns {
		if matchSegments(m.patterns[i].segments, path) {
			return true
		}
	}
	return false
}

// accepts reports whether a value is one of the accepted values.
func (m *valueMatcher) accepts(v string) bool {
	return slices.Contains(m.OneOf, v) || slices.ContainsFunc(m.Prefixes, func(p string) bool { return strings.HasPrefix(v, p) })
}

// exact reports whether the condition accepts only some exact values.
func (m *valueMatcher) exact() bool { return len(m.OneOf) > 0 && len(m.Prefixes) == 0 }

// checkValueName returns why no request has a value of such a name, or the zero fault.
func checkValueName(s Source, name string) (f fault) {
	switch {
	case s == FromHeader:
		return checkHeader(name)
	case s == FromCookie && !isToken(name):
		return fault{"is not a name of a cookie", "give one such as session"}
	case name == "":
		return fault{"has no name", "give the name of the value"}
	}
	return f
}

// checkHeader returns why no request has such a header, or the zero fault.
func checkHeader(name string) (f fault) {
	switch {
	case !isToken(name):
		return fault{"is not a name of a header", "give one such as X-User"}
	case strings.EqualFold(name, "Host"):
		return fault{"is not among the headers that rules see", "use the host instead"}
	}
	return f
}

// isToken reports whether s is a token of HTTP.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
