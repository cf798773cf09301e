package policyfile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sluicehq/sluice/policy"
)

// Match says which requests meet a rule. What is given must all match; of a
// list, one entry.
type Match struct {
	// Path are patterns such as /login, /users/* and /api/**; see policy.Match.
	Path []string `yaml:"path"`
	// Method are methods.
	Method []string `yaml:"method"`
	// Host are names, or *.example.com for all below one.
	Host []string `yaml:"host"`
	// Header are conditions on headers, by name. All must hold.
	Header map[string]ValueMatch `yaml:"header"`
	// Cookie are conditions on cookies, by name.
	Cookie map[string]ValueMatch `yaml:"cookie"`
	// Query are conditions on parameters of the query, by name.
	Query map[string]ValueMatch `yaml:"query"`
	// Attribute are conditions on what only an edge of another protocol knows, by name.
	Attribute map[string]ValueMatch `yaml:"attribute"`
	// ClientIP are addresses and networks of clients.
	ClientIP []netip.Prefix `yaml:"client_ip"`
	// Class are names of classes, see Class.
	Class []string `yaml:"class"`
	// Marked asks that the request be marked, or not: by an earlier hop or by a rule that marks.
	Marked *bool `yaml:"marked"`
	// Pressure asks that another rule be under pressure.
	Pressure *Pressure `yaml:"pressure"`
	// If are expressions, all of which must hold; see Expression.
	If []string `yaml:"if"`
	// Unless are exceptions: a request that one of them matches does not match.
	Unless []Match `yaml:"unless"`
}

// ValueMatch is a condition on a header, cookie, parameter or attribute: a value, a list
// of values, "*" for any value, or a mapping.
type ValueMatch struct {
	// Is are values, one of which it must have.
	Is []string `yaml:"is"`
	// Prefix are beginnings, one of which it must have.
	Prefix []string `yaml:"prefix"`
	// Present says whether it must be there, or must not.
	Present *bool `yaml:"present"`
}

func (*ValueMatch) short(bool) string { return "is" }

// Pressure asks that so much be demanded of a rule.
type Pressure struct {
	// Of is the name of the rule. Required.
	Of string `yaml:"of"`
	// AtLeast is the demand divided by what the rule's limits give: 0.9, or 90%, for nine
	// tenths of it. Required.
	AtLeast Ratio `yaml:"at_least"`
}

// Class is a kind of traffic, which rules can match and keep shares for. A request
// is of the first class that matches it, or of none.
type Class struct {
	// Name is unique in the file. Required.
	Name string `yaml:"name"`
	// Match says which requests are of the class. Default: all that are of no class above.
	Match Match `yaml:"match"`
	// Bypass lets the class pass without meeting any rule. Default: false.
	Bypass bool `yaml:"bypass"`
}

// build makes the match, whose settings are at path, and which the policy calls field.
func (m *Match) build(s *source, path, field string, where *places) policy.Match {
	p := policy.Match{
		Paths: m.Path, Methods: m.Method, Hosts: m.Host, ClientIPs: m.ClientIP, Classes: m.Class, Marked: m.Marked,
	}
	values := func(given map[string]ValueMatch, name, list string) (conditions []policy.ValueMatch) {
		for i, key := range slices.Sorted(maps.Keys(given)) {
			at, v := path+"."+name+"."+key, given[key]
			conditions = append(conditions, v.build(s, at, key))
			where.set(fmt.Sprintf("%s.%s[%d]", field, list, i), at)
		}
		return conditions
	}
	p.Headers = values(m.Header, "header", "Headers")
	p.Cookies = values(m.Cookie, "cookie", "Cookies")
	p.Queries = values(m.Query, "query", "Queries")
	p.Attributes = values(m.Attribute, "attribute", "Attributes")
	if m.Pressure != nil {
		p.Pressure, p.PressureOf = float64(m.Pressure.AtLeast), m.Pressure.Of
		switch {
		case p.PressureOf == "":
			s.follow(path+".pressure.of", "is missing", "give the name of the rule whose pressure counts")
			p.Pressure = 0
		case p.Pressure == 0:
			s.follow(path+".pressure.at_least", "is missing, or 0", "give a number above 0, such as 0.9 for nine tenths of what the rule gives")
			p.PressureOf = ""
		}
	}
	for i, text := range m.If {
		at := fmt.Sprintf("%s.if[%d]", path, i)
		e, err := ParseExpression(text)
		if err != nil {
			s.expression(at, text, err)
			continue
		}
		where.set(fmt.Sprintf("%s.If[%d]", field, len(p.If)), at)
		p.If = append(p.If, e)
	}
	for i := range m.Unless {
		p.Unless = append(p.Unless, m.Unless[i].build(s, fmt.Sprintf("%s.unless[%d]", path, i), fmt.Sprintf("%s.Unless[%d]", field, i), where))
		if len(m.Unless[i].If) > 0 && len(p.Unless[i].If) == 0 {
			where.bad = true // it would match every request
		}
	}
	return p
}

// build makes the condition on a value.
func (m *ValueMatch) build(s *source, path, name string) policy.ValueMatch {
	h := policy.ValueMatch{Name: name, OneOf: m.Is, Prefixes: m.Prefix, Absent: m.Present != nil && !*m.Present}
	if slices.Contains(m.Is, "*") {
		if len(m.Is) > 1 || len(m.Prefix) > 0 {
			s.follow(path, `has "*", which is for any value, among others`, `give "*" alone, or the values`)
		}
		h.OneOf = nil
	}
	return h
}
