package policy

import (
	"fmt"
	"math"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/faults"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy/internal/networks"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// matcher is a Match, checked and ready to match.
type matcher struct {
	patterns []patterns.Pattern // at least one
	methods  []string
	hosts    []string
	values   []valueMatcher
	clients  *networks.Set
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
		p, f := patterns.Parse(text, c.form)
		if f != (faults.Fault{}) {
			c.report(fmt.Sprintf("%sPaths[%d]", at, i), text, fault(f))
		}
		r.patterns = append(r.patterns, p)
	}
	if len(m.Paths) == 0 {
		r.patterns = []patterns.Pattern{patterns.Everything}
	}
	for i, method := range m.Methods {
		if f := fault(spelling.CheckRuleMethod(method)); f != (fault{}) {
			c.report(fmt.Sprintf("%sMethods[%d]", at, i), method, f)
		}
		r.methods = append(r.methods, method)
		if method == "GET" {
			r.methods = append(r.methods, "HEAD")
		}
	}
	for i, host := range m.Hosts {
		if f := fault(spelling.CheckRuleHost(host)); f != (fault{}) {
			c.report(fmt.Sprintf("%sHosts[%d]", at, i), host, f)
		}
		r.hosts = append(r.hosts, spelling.Host(host))
	}
	c.addValues(r, FromHeader, at+"Headers", m.Headers)
	c.addValues(r, FromCookie, at+"Cookies", m.Cookies)
	c.addValues(r, FromQuery, at+"Queries", m.Queries)
	c.addValues(r, source.Attribute, at+"Attributes", m.Attributes)
	c.checkNetworks(at+"ClientIPs", m.ClientIPs)
	r.clients = networks.New(m.ClientIPs)
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
		if stateful, ok := also.(stateMatcher); ok {
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
	condition condition.Kind
	index     int
	pressure  float64 // that the condition on pressure found
}

// walk checks the conditions that the index does not check, in the order of package condition. If the result
// is no, failure is the condition that fails.
func (m *matcher) walk(a *matching) (met truth, f failure) {
	if len(m.methods) > 0 && !slices.Contains(m.methods, a.Method) {
		return no, failure{condition: condition.Method}
	}
	met = yes
	if len(m.classes) > 0 {
		if met = a.isOf(m.classes); met == no {
			return no, failure{condition: condition.Class}
		}
	}
	if m.marked != nil && *m.marked != a.marked {
		if *m.marked {
			return no, failure{condition: condition.Marked}
		}
		return no, failure{condition: condition.Unmarked}
	}
	for i := range m.values {
		if met = min(met, m.values[i].matches(a.Attributes)); met == no {
			return no, failure{condition: sourceConditions[m.values[i].source], index: i}
		}
	}
	if m.clients != nil && !m.clients.Contains(a.ClientIP) {
		return no, failure{condition: condition.ClientIP}
	}
	for i, c := range m.also {
		if met = min(met, a.fulfills(c)); met == no {
			return no, failure{condition: condition.If, index: i}
		}
	}
	if m.of != "" {
		f := failure{condition: condition.Pressure}
		if a.pressure != nil {
			f.pressure = a.pressure(m.of)
		}
		if a.pressure == nil || f.pressure < m.pressure {
			return no, f
		}
	}
	for i, u := range m.unless {
		if met = min(met, yes-u.matchesAll(a)); met == no {
			return no, failure{condition: condition.Unless, index: i}
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
	stateful, ok := c.(stateMatcher)
	if !ok {
		return truthOf(c.Matches(a.Attributes))
	}
	state := condition.State{Class: a.name, ClassUnclear: a.unsure, Marked: a.marked, Pressure: a.pressure}
	careful, ok := stateful.(certainMatcher)
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
		if patterns.Match(m.patterns[i].Segments, path) {
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
		return fault(spelling.CheckHeader(name))
	case s == FromCookie && !spelling.IsName(name):
		return fault{"is not a name of a cookie", "give one such as session"}
	case name == "":
		return fault{"has no name", "give the name of the value"}
	}
	return f
}

// truth is whether a request fulfills a condition. The larger one of two is the more certain match.
type truth uint8

const (
	no truth = iota
	// maybe means that it depends on which of several values a service reads. A rule applies to such a
	// request, and an exception does not.
	maybe
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// matches compares the value of a request, or all its values if there are several.
func (m *valueMatcher) matches(a *Attributes) truth {
	r := a.Read(m.source, m.Name)
	present := len(m.OneOf)+len(m.Prefixes) == 0 // any value will do
	if r.Count != CountNone && (r.First == "" || r.Last == "") && (m.Absent || present) {
		return maybe // to some services, an empty value is a missing one
	}
	switch r.Count {
	case CountNone:
		return truthOf(m.Absent)
	case CountOne:
		return truthOf(!m.Absent && (present || m.accepts(r.First)))
	case CountSeveral:
		if m.Absent || present {
			return truthOf(!m.Absent)
		}
	default: // some services find no value
		if m.Absent || present {
			return maybe
		}
	}
	all, certain := a.readAll(m.source, m.Name)
	if !certain || slices.ContainsFunc(all, m.accepts) {
		return maybe
	}
	return no
}

// cleanAll returns values of a rule in the spelling in which requests have them.
func cleanAll(s Source, name string, values []string) []string {
	clean := slices.Clone(values)
	for i := range clean {
		clean[i], _ = cleanValue(s, name, clean[i])
	}
	return clean
}

// cleanPrefixes is cleanAll for beginnings of values. Credentials keep the space behind the scheme. The dots end the
// last part of a token, which a prefix does not end.
func cleanPrefixes(s Source, name string, prefixes []string) []string {
	const end = "x....."
	clean := slices.Clone(prefixes)
	for i := range clean {
		clean[i], _ = cleanValue(s, name, clean[i]+end)
		clean[i] = strings.TrimSuffix(clean[i], end)
	}
	return clean
}

// sourceConditions are the conditions on values, by the source of the value.
var sourceConditions = [...]condition.Kind{
	FromHeader: condition.Header, FromCookie: condition.Cookie, FromQuery: condition.Query, source.Attribute: condition.Attribute,
}
