package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// requestsOf returns the store's requests for one request, as names of limits with keys and floors.
func requestsOf(tb testing.TB, o policy.Options, a *policy.Attributes) (requests []string, v policy.Verdict) {
	tb.Helper()
	s := &stub{keep: true}
	v = mustPolicy(tb, o).Decide(tb.Context(), s, a)
	for _, r := range s.requests {
		requests = append(requests, fmt.Sprintf("%s %s %d", r.Limit.Name(), r.Key.Text(), r.Floor))
	}
	return requests, v
}

func at(path string) *policy.Attributes { return &policy.Attributes{Path: path, Method: "GET"} }

// A path with two variants matches the rules of both, under the keys of both, and each rule once.
func TestRulesOfAllPathVariants(t *testing.T) {
	rule := func(name string, m policy.Match, key policy.Part) policy.Rule {
		return policy.Rule{Name: name, Match: m, Key: []policy.Part{key}, Limits: bucket()}
	}
	paths := func(p ...string) policy.Match { return policy.Match{Paths: p} }
	o := policy.Options{Rules: []policy.Rule{
		rule("all", policy.Match{}, policy.Method()),
		rule("api", paths("/api/**"), policy.Global()),
		rule("accounts", paths("/accounts/{id}/**"), policy.Param("id")),
		rule("static", paths("/static"), policy.Route()),
		rule("path", paths("/by/**"), policy.Path()),
		rule("skip", paths("/x/{id}", "/x/{id}/*/*"), policy.Param("id").IfMissing(policy.MissingSkip)),
		rule("private", policy.Match{Unless: []policy.Match{{Paths: []string{"/public/**"}}}}, policy.Global()),
		rule("condition", policy.Match{If: []policy.Matcher{notBelow("/public")}}, policy.Global()),
	}}
	for path, want := range map[string]string{
		"/public/a":               "all GET",
		"/api/x":                  "all GET, api global, private global, condition global",
		"/api/%2e%2e/x":           "all GET, api global, private global, condition global",
		"/api/%2e%2e/public/x":    "all GET, api global, private global, condition global",
		"/public/%2e%2e/x":        "all GET, private global, condition global",
		"/public/../api/x":        "all GET, api global, private global, condition global",
		"/x/%2e%2e/public":        "all GET, private global, condition global",
		"/public/%2e/x":           "all GET",
		"/accounts/7/%2e%2e/8":    "all GET, accounts 8, accounts 7, private global, condition global",
		"/accounts/7/%2e%2e/7":    "all GET, accounts 7, private global, condition global",
		"/accounts/7/%2e/%2E":     "all GET, accounts 7, private global, condition global",
		"/static/x/%2e%2e":        "all GET, static /static, private global, condition global",
		"/by/a/%2e%2e/b":          "all GET, path /by/b, path /by/a/%2E%2E/b, private global, condition global",
		"/x/1/%2e%2e/2":           "all GET, skip 2, skip 1, private global, condition global",
		"/a/%2e%2e/../b/%2e/api/": "all GET, private global, condition global",
		"/%2e%2e":                 "all GET, private global, condition global",
		"/public//a":              "all GET",
		"//public/a":              "all GET, private global, condition global",
		"/accounts//7":            "all GET, accounts 7, private global, condition global",
		"//by///a":                "all GET, path /by/a, private global, condition global",
		"/x//1":                   "all GET, skip 1, private global, condition global",
		"/api//../static":         "all GET, api global, static /static, private global, condition global",
	} {
		requests, v := requestsOf(t, o, at(path))
		for i := range requests {
			requests[i] = strings.TrimSuffix(requests[i], " 0")
		}
		if got := strings.Join(requests, ", "); got != want || !v.Allowed() || len(v.Charges()) != len(requests) {
			t.Errorf("%s requests %s; want %s: %s", path, got, want, v.String())
		}
	}
}

// notBelow is a condition on the path that has no pattern.
type notBelow string

func (p notBelow) Matches(a *policy.Attributes) bool {
	return !strings.HasPrefix(a.Path, string(p)+"/")
}

// An exception applies only if all path variants match it. One variant is enough for a refusal.
func TestExceptionsHoldByAllPathVariants(t *testing.T) {
	below := func(p string) policy.Match { return policy.Match{Paths: []string{p + "/**"}} }
	global := []policy.Part{policy.Global()}
	param := func(r policy.Rule) policy.Rule {
		r.Name, r.Match, r.Key, r.Limits = "r", policy.Match{Paths: []string{"/a/{id}/**"}}, []policy.Part{policy.Param("id")}, bucket()
		return r
	}
	for _, c := range []struct {
		name    string
		options policy.Options
		allowed map[string]bool
		reason  sluice.Reason
	}{
		{"a list of keys to deny", policy.Options{Rules: []policy.Rule{param(policy.Rule{DenyKeys: [][]string{{"7"}}})}}, map[string]bool{
			"/a/8": true, "/a/7/x": false, "/a/7/%2e%2e/8": false, "/a/8/%2e%2e/7": false, "/a/8/%2e%2e/9": true,
		}, sluice.ReasonListed},
		{"a rule that always denies", policy.Options{Rules: []policy.Rule{{Name: "r", Match: below("/admin"), Always: true}}}, map[string]bool{
			"/a/../x": true, "/admin/%2e%2e/x": false, "/x/%2e%2e/admin": false, "/admin/../x": false, "/admin//../x": false,
			"//admin/x": false, "/admin//": false, "/%2fadmin": false,
		}, sluice.ReasonLimited},
		{"a default that denies", policy.Options{Default: policy.Deny, Rules: []policy.Rule{{Name: "r", Match: below("/public"), Key: global, Limits: bucket()}}}, map[string]bool{
			"/public/x": true, "/public/%2e/x": true, "/public/x/%2e%2e/y": true, "/x": false, "/admin/%2e%2e/public/x": false, "/public/%2e%2e/x": false, "/admin/../public": false,
			"/public//x": true, "//public/x": false, "/public/": true, "/public%2f/x": false,
		}, sluice.ReasonNoRule},
		{
			"a class that bypasses",
			policy.Options{
				Classes: []policy.Class{{Name: "free", Match: below("/free"), Bypass: true}, {Name: "also", Match: below("/also"), Bypass: true}},
				Rules:   []policy.Rule{{Name: "r", Always: true}},
			},
			map[string]bool{
				"/free/x": true, "/free/%2e/x": true, "/free/%2e%2e/also/x": true, "/x/%2e%2e/free/x": false, "/free/%2e%2e/x": false, "/x/../also": false,
				"/free//x": true, "//free/x": false, "/%2ffree/x": false,
			},
			sluice.ReasonLimited,
		},
	} {
		p := mustPolicy(t, c.options)
		for path, allowed := range c.allowed {
			v := p.Decide(t.Context(), &stub{}, at(path))
			if v.Allowed() != allowed || !allowed && v.Reason != c.reason {
				t.Errorf("%s: path %s: %s, want allowed %v", c.name, path, v.String(), allowed)
			}
		}
	}
}

// An allowed key or an override applies only to its own key.
func TestKeysOfEachPathVariant(t *testing.T) {
	o := policy.Options{Rules: []policy.Rule{{
		Name: "r", Match: policy.Match{Paths: []string{"/a/{id}/**"}}, Key: []policy.Part{policy.Param("id")}, Limits: bucket(),
		AllowKeys: [][]string{{"free"}},
		Overrides: []policy.Override{{Key: []string{"gold"}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(99)})}}},
	}}}
	for path, want := range map[string]string{
		"/a/free/%2e%2e/7":    "7 false, free false allow",
		"/a/gold/%2e%2e/7":    "7 false, gold true",
		"/a/gold/%2e%2e/free": "free false allow, gold true",
	} {
		_, v := requestsOf(t, o, at(path))
		var got []string
		for _, m := range v.Results {
			got = append(got, strings.TrimSpace(fmt.Sprint(m.Request.Key.Text(), " ", m.Override, " ", m.Listed)))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// If the path variants belong to several classes, the rules of each class match, and no class's reserve is used.
func TestClassesOfAllPathVariants(t *testing.T) {
	o := policy.Options{
		Classes: []policy.Class{
			{Name: "critical", Match: policy.Match{Paths: []string{"/pay/**"}}},
			{Name: "batch", Match: policy.Match{Paths: []string{"/batch/**"}}},
			{Name: "free", Match: policy.Match{Paths: []string{"/free/**"}}, Bypass: true},
		},
		Rules: []policy.Rule{
			{Name: "all", Key: []policy.Part{policy.Global()}, Limits: bucket(), Reserved: []policy.Reserve{{Units: 4, For: []string{"critical"}}}},
			{Name: "batch", Match: policy.Match{Classes: []string{"batch"}}, Key: []policy.Part{policy.Global()}, Limits: bucket()},
		},
	}
	for path, want := range map[string]string{
		"/pay":               "critical: all global 0",
		"/pay/%2e":           "critical: all global 0",
		"/pay/%2e%2e/x":      ": all global 4",
		"/x/%2e%2e/pay":      ": all global 4",
		"/batch/%2e%2e/pay":  ": all global 4 batch global 0",
		"/pay/%2e%2e/free":   ": all global 4",
		"/free/%2e%2e/batch": ": all global 4 batch global 0",
		"/free/%2e%2e/free":  "free:",
	} {
		requests, v := requestsOf(t, o, at(path))
		if got := strings.Join(append([]string{v.Class + ":"}, requests...), " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// The marking rules of all path variants are decided before the rules that match marks. Their charges are given
// back if one variant matches no rule and the default denies.
func TestMarksOfAllPathVariants(t *testing.T) {
	yes := true
	below := func(p string) []string { return []string{p + "/**"} }
	o := policy.Options{
		Rules: []policy.Rule{
			{Name: "first", Match: policy.Match{Paths: below("/m"), Marked: &yes}, Key: []policy.Part{policy.Path()}, Limits: bucket()},
			{Name: "marks", Match: policy.Match{Paths: below("/m/x")}, Key: []policy.Part{policy.Path()}, Limits: bucket(), WhenLimited: policy.LimitedAction{Action: policy.Mark}},
		},
	}
	run := func(path string) (v policy.Verdict, s *stub) {
		s = &stub{keep: true, answer: func(r *sluice.Request) sluice.Decision { return sluice.Decision{Allowed: r.Limit.Name() != "marks"} }}
		return mustPolicy(t, o).Decide(t.Context(), s, at(path)), s
	}
	v, s := run("/m/x/%2e%2e/y")
	var requests []string
	for _, r := range s.requests {
		requests = append(requests, r.Limit.Name()+" "+r.Key.Text())
	}
	if want := []string{"marks /m/x/%2E%2E/y", "first /m/y", "first /m/x/%2E%2E/y"}; !slices.Equal(requests, want) || v.Action != policy.Mark {
		t.Errorf("requests %q, want %q: %s", requests, want, v.String())
	}
	var matched []string
	for _, m := range v.Results {
		matched = append(matched, m.Rule.Name)
	}
	if !slices.IsSorted(matched) || len(matched) != 3 {
		t.Errorf("not in the order of the rules: %q", matched)
	}

	o.Default, o.Rules[1].Match.Paths = policy.Deny, below("/other")
	o.Rules[1].WhenLimited, o.Rules[1].Limits = policy.LimitedAction{Action: policy.Mark}, bucket()
	s = &stub{keep: true, answer: func(*sluice.Request) sluice.Decision { return sluice.Decision{Allowed: true} }}
	v = mustPolicy(t, o).Decide(t.Context(), s, at("/m/%2e%2e/other"))
	if v.Reason != sluice.ReasonNoRule || len(s.requests) != 1 || len(s.ended) != 1 {
		t.Errorf("%d requests, and %d given back: %s", len(s.requests), len(s.ended), v.String())
	}
}

// A trace shows what a decision does with each path variant.
func TestTraceOfAllPathVariants(t *testing.T) {
	o := policy.Options{
		Default: policy.Deny,
		Classes: []policy.Class{{Name: "free", Match: policy.Match{Paths: []string{"/free"}}, Bypass: true}},
		Rules: []policy.Rule{
			{Name: "x", Match: policy.Match{Paths: []string{"/x"}}, Key: []policy.Part{policy.Global()}, Limits: bucket()},
			{Name: "api", Match: policy.Match{Paths: []string{"/api/{id}/x"}}, Key: []policy.Part{policy.Param("id")}, Limits: bucket()},
		},
	}
	trace := mustPolicy(t, o).Trace(at("/api/%2e%2e/x"))
	if trace.Path != "/x" || !slices.Equal(trace.Variants, []string{"/api/%2E%2E/x"}) || trace.Stray != "" {
		t.Errorf("the trace has paths %+v, want /x and its variant", trace)
	}
	x, api := trace.Rules[0], trace.Rules[1]
	if x.Unmet != nil || x.Path != "/x" || api.Unmet != nil || api.Path != "/api/%2E%2E/x" || api.Key[0].Value != "%2E%2E" || len(api.Results) != 1 {
		t.Errorf("rules of the trace match %+v, want x by /x and api by its variant", trace.Rules)
	}
	for path, stray := range map[string]string{"/x/../x": "/x/%2E%2E/x", "/y": "", "/free/%2e%2e/x": "/free/%2E%2E/x", "/x/%2e%2e/free": "/x/%2E%2E/free"} {
		trace := mustPolicy(t, o).Trace(at(path))
		v := mustPolicy(t, o).Decide(t.Context(), &stub{}, at(path))
		if trace.Matches() && trace.Stray != stray || v.Allowed() != (trace.Matches() && trace.Stray == "") {
			t.Errorf("%s: %+v; decided: %s", path, trace, v.String())
		}
	}
}
