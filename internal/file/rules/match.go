package rules

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/expression"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// Match selects requests. All given conditions must hold. If a condition is a list, one entry of it
// must hold.
type Match struct {
	// Path lists patterns such as /login, /users/*, /users/{id} and /api/**. Default: any path.
	Path []string `yaml:"path"`
	// Method lists methods such as GET. GET includes HEAD. Default: any method.
	Method []string `yaml:"method"`
	// Host lists names, or *.example.com for all names below one. Default: any host.
	Host []string `yaml:"host"`
	// Header holds conditions on headers, by name. All must hold. Default: none.
	Header map[string]ValueMatch `yaml:"header"`
	// Cookie holds conditions on cookies, by name. Default: none.
	Cookie map[string]ValueMatch `yaml:"cookie"`
	// Query holds conditions on parameters of the query, by name. Default: none.
	Query map[string]ValueMatch `yaml:"query"`
	// Attribute holds conditions on values that the API receives beside a request, by name. Default: none.
	Attribute map[string]ValueMatch `yaml:"attribute"`
	// ClientIP lists addresses and networks of clients. Default: any address.
	ClientIP []netip.Prefix `yaml:"client_ip"`
	// Class lists names of classes. Default: any class.
	Class []string `yaml:"class"`
	// Marked is true for requests that an earlier proxy or rule marked, false for all others.
	// Default: either.
	Marked *bool `yaml:"marked"`
	// Pressure holds while another rule is under pressure. Default: none.
	Pressure *Pressure `yaml:"pressure"`
	// If lists expressions, all of which must hold; see docs/policies.md. Default: none.
	If []string `yaml:"if"`
	// Unless lists exceptions: a request that one of them matches is not selected. Default: none.
	Unless []Match `yaml:"unless"`
}

// Unknown has a remedy for a setting that belongs elsewhere.
func (*Match) Unknown(name, text string) string {
	if name == "descriptor" {
		return "give it to a rule, in place of the match; classes and exceptions match requests"
	}
	return ""
}

// ValueMatch is a condition on a header, cookie, parameter or attribute: a value, a list
// of values, "*" for any value, or a mapping.
type ValueMatch struct {
	// Is lists the accepted values. Default: any value.
	Is []string `yaml:"is"`
	// Prefix lists beginnings of accepted values. Default: none.
	Prefix []string `yaml:"prefix"`
	// Present is false if the request must not have the value. Default: true.
	Present *bool `yaml:"present"`
}

// Short implements [reader.Shorthand].
func (*ValueMatch) Short(bool) string { return "is" }

// Pressure holds while the demand on a rule is high.
type Pressure struct {
	// Of is the name of the rule. Required.
	Of string `yaml:"of"`
	// AtLeast is the demand divided by what the rule's limits give: 0.9, or 90%, for nine
	// tenths. Required.
	AtLeast reader.Ratio `yaml:"at_least"`
}

// Class is a kind of traffic, which rules can match and reserve shares for. A request
// has the first class that matches it, or none.
type Class struct {
	// Name is unique in the file. Required.
	Name string `yaml:"name"`
	// Match selects the requests of the class. Default: all requests that no class above matches.
	Match Match `yaml:"match"`
	// Bypass lets the requests of the class pass without any rule. Default: false.
	Bypass bool `yaml:"bypass"`
}

// build makes the match. Its settings are at path, and field is its name in the policy.
func (m *Match) build(s *reader.Source, path, field string, where *origins) policy.Match {
	m.checkMethods(s, path)
	for i, text := range m.Path {
		if strings.HasPrefix(text, "^") {
			s.Follow(fmt.Sprintf("%s.path[%d]", path, i), reader.Quote(text)+" is a regular expression, and paths are patterns",
				fmt.Sprintf("write a pattern such as /api/**, or if: 'path matches %q'", text))
		}
	}
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
			s.Follow(path+".pressure.of", "is missing", "give the name of the rule whose pressure counts")
			p.Pressure = 0
		case p.Pressure == 0:
			s.Follow(path+".pressure.at_least", "is missing, or 0", "give a number above 0, such as 0.9 for nine tenths of what the rule gives")
			p.PressureOf = ""
		}
	}
	for i, text := range m.If {
		at := fmt.Sprintf("%s.if[%d]", path, i)
		e, err := expression.Parse(text)
		if err != nil {
			reportExpression(s, at, text, err)
			continue
		}
		where.set(fmt.Sprintf("%s.If[%d]", field, len(p.If)), at)
		p.If = append(p.If, e)
	}
	for i := range m.Unless {
		p.Unless = append(p.Unless, m.Unless[i].build(s, fmt.Sprintf("%s.unless[%d]", path, i), fmt.Sprintf("%s.Unless[%d]", field, i), where))
		if len(m.Unless[i].If) > 0 && len(p.Unless[i].If) == 0 {
			where.bad = true // otherwise it would match every request
		}
	}
	return p
}

// build makes the condition on a value.
func (m *ValueMatch) build(s *reader.Source, path, name string) policy.ValueMatch {
	h := policy.ValueMatch{Name: name, OneOf: m.Is, Prefixes: m.Prefix, Absent: m.Present != nil && !*m.Present}
	if slices.Contains(m.Is, "*") {
		if len(m.Is) > 1 || len(m.Prefix) > 0 {
			s.Follow(path, `has "*", which means any value, among others`, `give only "*", or the values`)
		}
		h.OneOf = nil
	}
	return h
}

// checkMethods reports misspelt methods, which match no request.
func (m *Match) checkMethods(s *reader.Source, path string) {
	for i, method := range m.Method {
		if meant := expression.MethodMeant(method); meant != "" && !strings.EqualFold(meant, method) {
			s.Follow(fmt.Sprintf("%s.method[%d]", path, i), reader.Quote(method)+" is not a method that clients use", fmt.Sprintf("did you mean %q?", meant))
		}
	}
	for i := range m.Unless {
		m.Unless[i].checkMethods(s, fmt.Sprintf("%s.unless[%d]", path, i))
	}
}

// unknownMethods warns of methods that no standard has.
func (m *Match) unknownMethods(s *reader.Source, path string) {
	for i, method := range m.Method {
		if !expression.IsMethod(method) {
			s.Follow(fmt.Sprintf("%s.method[%d]", path, i), reader.Quote(method)+" is not a registered method; the rule matches only clients that send exactly that", "give methods such as GET, POST or PUT, if that is not what you mean")
		}
	}
	for i := range m.Unless {
		m.Unless[i].unknownMethods(s, fmt.Sprintf("%s.unless[%d]", path, i))
	}
}

// reportExpression reports a mistake in an expression, at its position in the file if that can be found.
func reportExpression(s *reader.Source, path, text string, err error) {
	var bad *expression.Error
	if !errors.As(err, &bad) {
		s.Follow(path, err.Error(), "")
		return
	}
	if !s.Failed(path) {
		s.ReportAt(s.Within(s.Find(path), text, bad.Line, bad.Column), path, bad.Problem, bad.Suggestion)
	}
}

// ReadsClient reports whether a match reads the address of the client.
func (m *Match) ReadsClient() bool {
	return len(m.ClientIP) > 0 || slices.ContainsFunc(m.Unless, func(n Match) bool { return n.ReadsClient() }) ||
		slices.ContainsFunc(m.If, func(text string) bool {
			return strings.Contains(text, "client_ip") || strings.Contains(text, "in_network")
		})
}
