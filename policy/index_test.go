package policy

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// A pattern matches the paths of one handler, and no others.
func TestPatternsMatchOneHandler(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"/login", []string{"/login", "/login/", "//login", "/%6cogin"}, []string{"/", "/login/x", "/Login", "/x/login"}},
		{"/", []string{"/", "", "//"}, []string{"/a"}},
		{"/users/*", []string{"/users/1", "/users/a%2Fb"}, []string{"/users", "/users/", "/users/1/2"}},
		{"/users/{id}", []string{"/users/1"}, []string{"/users", "/users/1/2"}},
		{"/users/*/posts", []string{"/users/1/posts"}, []string{"/users/posts", "/users/1/2/posts"}},
		{"/api/**", []string{"/api", "/api/", "/api/v1", "/api/v1/users"}, []string{"/", "/apis", "/v1/api"}},
		{"/**", []string{"/", "/a", "/a/b"}, nil},
		{"/**/**", []string{"/", "/a", "/a/b"}, nil},
		{"/**/export", []string{"/export", "/a/export", "/a/b/export"}, []string{"/", "/export/a", "/exports"}},
		{"/a/**/b/*/c", []string{"/a/b/x/c", "/a/x/y/b/z/c", "/a/b/b/b/c"}, []string{"/a/b/c", "/a/b/x/y/c", "/b/x/c"}},
		{"/a/**/b/**", []string{"/a/b", "/a/x/b/y"}, []string{"/a", "/a/c"}},
		{"/caf\u00e9", []string{"/caf%C3%A9", "/caf%c3%a9"}, []string{"/cafe"}},
		{"/a b", []string{"/a%20b"}, nil},
		{"/%2A", []string{"/*", "/%2a"}, []string{"/a"}},
	} {
		p, err := New(Options{Rules: []Rule{{
			Name: "r", Match: Match{Paths: []string{c.pattern}}, Key: []Part{Global()}, Limits: testLimits(),
		}}})
		if err != nil {
			t.Errorf("pattern %s was refused: %v", c.pattern, err)
			continue
		}
		for _, path := range c.yes {
			if len(p.LimitsFor(&Attributes{Path: path})) == 0 {
				t.Errorf("%s does not match %s", c.pattern, path)
			}
		}
		for _, path := range c.no {
			if len(p.LimitsFor(&Attributes{Path: path})) > 0 {
				t.Errorf("%s matches %s", c.pattern, path)
			}
		}
	}
}

// asRegexp returns a regular expression that matches the same paths as a pattern.
func asRegexp(p *patterns.Pattern) *regexp.Regexp {
	text := "^"
	for _, s := range p.Segments {
		switch s.Kind {
		case patterns.AnyDepth:
			text += "(?:/[^/]+)*"
		case patterns.AnyOne:
			text += "/[^/]+"
		default:
			text += "/" + regexp.QuoteMeta(s.Text)
		}
	}
	return regexp.MustCompile(text + "$")
}

// The index finds the rules whose patterns match. Patterns and paths have few
// different segments, so they often match.
func TestIndexFindsTheMatchingRules(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(words []string, most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteString("/" + words[r.IntN(len(words))])
		}
		if b.Len() == 0 {
			return "/"
		}
		return b.String()
	}
	hosts := []string{"", "a.example.com", "*.example.com", "example.com", "*.a.example.com"}
	for round := range soak.Times(t, 60) {
		var rules []Rule
		for i := range 1 + r.IntN(12) {
			rule := Rule{Name: fmt.Sprintf("r%d", i), Key: []Part{Global()}, Limits: testLimits()}
			for range 1 + r.IntN(3) {
				rule.Match.Paths = append(rule.Match.Paths, draw([]string{"a", "b", "*", "**", "a", "b"}, 6))
			}
			if h := hosts[r.IntN(len(hosts))]; h != "" {
				rule.Match.Hosts = append(rule.Match.Hosts, h)
			}
			rules = append(rules, rule)
		}
		p, err := New(Options{Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			a := &Attributes{Path: draw([]string{"a", "b", "c"}, 7), Host: []string{"example.com", "a.example.com", "b.a.example.com", "com", ""}[r.IntN(5)]}
			var want, got []string
			for _, rule := range p.rules {
				path := slices.ContainsFunc(rule.match.patterns, func(p patterns.Pattern) bool {
					return asRegexp(&p).MatchString(strings.TrimSuffix(a.Path, "/"))
				})
				host := len(rule.Match.Hosts) == 0 || slices.ContainsFunc(rule.Match.Hosts, func(h string) bool {
					suffix, wild := strings.CutPrefix(h, "*")
					return h == a.Host || wild && strings.HasSuffix(a.Host, suffix)
				})
				if path && host {
					want = append(want, rule.Name)
				}
			}
			for _, m := range p.LimitsFor(a) {
				got = append(got, m.Rule.Name)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("round %d: %s%s matches %v, want %v of %+v", round, a.Host, a.Path, got, want, rules)
			}
		}
	}
}

// Rules for values of one path are found by their own source and name, also if other rules there have the same.
func TestIndexDistinguishesValues(t *testing.T) {
	m := func(header, query string, value string) Match {
		match := Match{Paths: []string{"/a"}}
		if header != "" {
			match.Headers = []ValueMatch{{Name: header, OneOf: []string{value}}}
		}
		if query != "" {
			match.Queries = []ValueMatch{{Name: query, OneOf: []string{value}}}
		}
		return match
	}
	p, err := New(Options{Rules: []Rule{
		{Name: "one", Match: m("X-A", "", "1"), Key: []Part{Global()}, Limits: testLimits()},
		{Name: "same-name", Match: m("", "X-A", "2"), Key: []Part{Global()}, Limits: testLimits()},
		{Name: "same-source", Match: m("X-B", "", "3"), Key: []Part{Global()}, Limits: testLimits()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values oneValue
		want   string
	}{
		{oneValue{FromHeader, "X-A", "1"}, "one"},
		{oneValue{FromQuery, "X-A", "2"}, "same-name"},
		{oneValue{FromHeader, "X-B", "3"}, "same-source"},
		{oneValue{FromHeader, "X-A", "2"}, ""},
	} {
		got := ""
		for _, r := range p.LimitsFor(&Attributes{Path: "/a", Values: c.values}) {
			got += r.Rule.Name
		}
		if got != c.want {
			t.Errorf("%+v matches the rules %q, want %q", c.values, got, c.want)
		}
	}
}

// oneValue is the only value of a request.
type oneValue struct {
	source      Source
	name, value string
}

func (v oneValue) read(s Source, name string) (string, bool) {
	return v.value, s == v.source && name == v.name
}

func (v oneValue) Header(name string) (string, bool) { return v.read(FromHeader, name) }
func (v oneValue) Cookie(name string) (string, bool) { return v.read(FromCookie, name) }
func (v oneValue) Query(name string) (string, bool)  { return v.read(FromQuery, name) }

// The lookup of a host below which rules match takes no time that grows with its square.
func TestHostsBelow(t *testing.T) {
	rule := func(name string, hosts ...string) Rule {
		return Rule{Name: name, Match: Match{Hosts: hosts}, Always: true}
	}
	p, err := New(Options{Rules: []Rule{rule("short", "*.b"), rule("long", "*.some.longer.example"), rule("exact", "a.b")}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"b": 0, ".b": 0, "a.b": 2, "c.a.b": 1, "A.B.:80": 2, "some.longer.example": 0, "x.some.longer.example": 1, "y.x.some.longer.example": 1,
		strings.Repeat("a.", 1<<20) + "b": 1,
	} {
		a := Attributes{Host: spelling.Host(host), Path: "/"}
		if found := p.index.find(&a, a.Path, nil); len(found) != want {
			t.Errorf("%.40q has %d rules, want %d", host, len(found), want)
		}
	}
}
