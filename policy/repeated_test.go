package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// A part with several values denies the request, counts by one of them, or shares the budget of missing
// parts. It never skips the rule.
func TestRepeatedParts(t *testing.T) {
	for _, c := range []struct {
		choice policy.Repeated
		values []string
		want   string // the key
		reason sluice.Reason
	}{
		{policy.RepeatedDeny, []string{"a", "b"}, "", sluice.ReasonRepeatedKey},
		{policy.RepeatedDeny, []string{"a", "a"}, "", sluice.ReasonRepeatedKey},
		{policy.RepeatedDeny, []string{"", ""}, "", sluice.ReasonRepeatedKey},
		{policy.RepeatedDeny, []string{"unclear"}, "", sluice.ReasonRepeatedKey},
		{policy.RepeatedDeny, []string{"a"}, "a", 0},
		{policy.RepeatedFirst, []string{"a", "b", "c"}, "a", 0},
		{policy.RepeatedLast, []string{"a", "b", "c"}, "c", 0},
		{policy.RepeatedFirst, []string{"unclear"}, "unclear", 0},
		{policy.RepeatedShared, []string{"a", "b"}, "missing", 0},
		{policy.RepeatedFirst, []string{"", "b"}, "missing", 0},
	} {
		for _, missing := range []policy.Missing{policy.MissingShared, policy.MissingSkip, policy.MissingDeny} {
			if c.want == "missing" && missing != policy.MissingShared && c.choice != policy.RepeatedShared {
				continue // the value that counts is missing
			}
			rules := named("r")
			rules[0].Key = []policy.Part{policy.Header("X-A").IfMissing(missing).IfRepeated(c.choice)}
			var want sluice.Key
			if c.want == "missing" {
				s := &stub{keep: true}
				shared := named("r")
				shared[0].Key = []policy.Part{policy.Header("X-A")}
				mustPolicy(t, policy.Options{Rules: shared}).Decide(t.Context(), s, &policy.Attributes{})
				want = s.requests[0].Key
			} else {
				want = sluice.StringKey(c.want)
			}
			for name, decide := range map[string]func(*stub, *policy.Attributes) policy.Verdict{
				"policy": func(s *stub, a *policy.Attributes) policy.Verdict {
					return mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), s, a)
				},
				"single": func(s *stub, a *policy.Attributes) policy.Verdict {
					return mustSingle(t, rules[0]).Decide(t.Context(), s, a)
				},
			} {
				s := &stub{keep: true}
				v := decide(s, &policy.Attributes{Values: several{"X-A": c.values}})
				switch {
				case c.reason != 0:
					if v.Allowed() || v.Reason != c.reason || v.Missing == nil || len(s.requests) > 0 || !strings.Contains(v.String(), "several values") {
						t.Errorf("%s: %v of %q: %s", name, c.choice, c.values, v.String())
					}
				case len(s.requests) != 1 || s.requests[0].Key != want:
					t.Errorf("%s: %v of %q with %v: %+v, want the key %q", name, c.choice, c.values, missing, s.requests, want)
				}
			}
		}
	}
}

// A rule may choose among several values of each source that can have several, also within a template. For any other
// source the choice is an error.
func TestRepeatedSources(t *testing.T) {
	for _, c := range []struct {
		name string
		part policy.Part
		key  string // of the second value; empty if the choice is an error
	}{
		{"header", policy.Header("A"), "b"},
		{"cookie", policy.Cookie("A"), "b"},
		{"query", policy.Query("A"), "b"},
		{"claim", policy.Claim("A"), "b"},
		{"header in a template", policy.Template("{header:A}"), "b"},
		{"cookie in a template", policy.Template("{cookie:A}"), "b"},
		{"query in a template", policy.Template("{query:A}"), "b"},
		{"claim in a template", policy.Template("{claim:A}"), "b"},
		{"client IP", policy.ClientIP(), ""},
		{"global", policy.Global(), ""},
		{"constant", policy.Constant("A"), ""},
		{"attribute", policy.Attribute("A"), ""},
		{"method", policy.Method(), ""},
		{"path", policy.Path(), ""},
	} {
		rules := named("r")
		rules[0].Key = []policy.Part{c.part.IfRepeated(policy.RepeatedLast)}
		p, err := policy.New(policy.Options{Rules: rules})
		if c.key == "" {
			if err == nil || !strings.Contains(err.Error(), "a choice for several values") {
				t.Errorf("%s has one value, but a choice among several was accepted: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s may have several values, but the choice was refused: %v", c.name, err)
			continue
		}
		s := &stub{keep: true}
		v := p.Decide(t.Context(), s, &policy.Attributes{Values: several{"A": {"a", "b"}}})
		if len(s.requests) != 1 || s.requests[0].Key != sluice.StringKey(c.key) {
			t.Errorf("%s: %s, requests %+v, want the key %q", c.name, v.String(), s.requests, c.key)
		}
	}
}

// A rule applies to a request with several values if one of them fulfills its conditions. An exception, a
// class and a rule that lets requests pass by default: deny need all values.
func TestRepeatedConditions(t *testing.T) {
	plan := func(values ...string) []policy.ValueMatch {
		return []policy.ValueMatch{{Name: "X-Plan", OneOf: values}}
	}
	absent := []policy.ValueMatch{{Name: "X-Plan", Absent: true}}
	present := []policy.ValueMatch{{Name: "X-Plan"}}
	prefix := []policy.ValueMatch{{Name: "X-Plan", Prefixes: []string{"fr"}}}
	for _, c := range []struct {
		name   string
		match  policy.Match
		values []string
		want   bool
	}{
		{"one of them", policy.Match{Headers: plan("free")}, []string{"pro", "free"}, true},
		{"the first", policy.Match{Headers: plan("free")}, []string{"free", "pro"}, true},
		{"none", policy.Match{Headers: plan("free")}, []string{"pro", "team"}, false},
		{"a prefix", policy.Match{Headers: prefix}, []string{"pro", "free"}, true},
		{"present", policy.Match{Headers: present}, []string{"pro", "free"}, true},
		{"absent", policy.Match{Headers: absent}, []string{"pro", "free"}, false},
		{"empty, present", policy.Match{Headers: present}, []string{""}, true},
		{"empty, absent", policy.Match{Headers: absent}, []string{""}, true},
		{"absent, and an empty one among others", policy.Match{Headers: absent}, []string{"a", ""}, true},
		{"an exception for an empty one", policy.Match{Unless: []policy.Match{{Headers: present}}}, []string{""}, true},
		{"an exception for none, and an empty one", policy.Match{Unless: []policy.Match{{Headers: absent}}}, []string{""}, true},
		{"a cookie that some services decode", policy.Match{Cookies: plan("free")}, []string{`"\146ree"`}, true},
		{"one of several cookies that some services decode", policy.Match{Cookies: plan("free")}, []string{"pro", `"\146ree"`}, true},
		{"an exception for such a cookie", policy.Match{Unless: []policy.Match{{Cookies: plan("free", `"\146ree"`)}}}, []string{`"\146ree"`}, true},
		{"unclear, present", policy.Match{Headers: present}, []string{"unclear"}, true},
		{"unclear, absent", policy.Match{Headers: absent}, []string{"unclear"}, true},
		{"unclear, other", policy.Match{Headers: plan("free")}, []string{"unclear"}, false},
		{"an exception for one of them", policy.Match{Unless: []policy.Match{{Headers: plan("free")}}}, []string{"pro", "free"}, true},
		{"an exception for both", policy.Match{Unless: []policy.Match{{Headers: plan("free", "pro")}}}, []string{"pro", "free"}, true},
		{"an exception for any value", policy.Match{Unless: []policy.Match{{Headers: present}}}, []string{"pro", "free"}, false},
		{"an exception for an unclear one", policy.Match{Unless: []policy.Match{{Headers: present}}}, []string{"unclear"}, true},
		{"an exception of an exception", policy.Match{Headers: present, Unless: []policy.Match{{Headers: present, Unless: []policy.Match{{Headers: plan("free")}}}}}, []string{"pro", "free"}, true},
	} {
		rules := named("r")
		rules[0].Match = c.match
		p := mustPolicy(t, policy.Options{Rules: rules})
		a := &policy.Attributes{Method: "GET", Path: "/", Values: several{"X-Plan": c.values}}
		s := &stub{keep: true}
		p.Decide(t.Context(), s, a)
		if got := len(s.requests) == 1; got != c.want {
			t.Errorf("%s: the rule matches: %v, want %v", c.name, got, c.want)
		}
		if trace := p.Trace(a); trace.Matches() != c.want {
			t.Errorf("%s: the trace says %+v", c.name, trace.Rules[0].Unmet)
		}
	}
}

// A request that has a class by one of several values only has none, and the rules of all classes apply.
func TestRepeatedClasses(t *testing.T) {
	enterprise := policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{"enterprise"}}}}
	classes := []policy.Class{{Name: "health", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{"probe"}}}}, Bypass: true}, {Name: "critical", Match: enterprise}, {Name: "other"}}
	rules := named("critical", "other", "all")
	rules[0].Match.Classes, rules[1].Match.Classes = []string{"critical"}, []string{"other"}
	rules[2].Limits = perDay(100)
	rules[2].Reserved = []policy.Reserve{{Share: 20, For: []string{"critical"}}}
	p := mustPolicy(t, policy.Options{Rules: rules, Classes: classes})
	for _, c := range []struct {
		values []string
		want   string // the rules
		floor  int64
		class  string
	}{
		{[]string{"enterprise"}, "critical all", 0, "critical"},
		{[]string{"free"}, "other all", 20, "other"},
		{[]string{"probe"}, "", 0, "health"},
		{[]string{"enterprise", "free"}, "critical other all", 20, ""},
		{[]string{"free", "enterprise"}, "critical other all", 20, ""},
		{[]string{"probe", "free"}, "critical other all", 20, ""},
	} {
		s := &stub{keep: true}
		v := p.Decide(t.Context(), s, &policy.Attributes{Values: several{"X-Plan": c.values}})
		var met []string
		for i := range s.requests {
			met = append(met, s.requests[i].Limit.Name())
		}
		if strings.Join(met, " ") != c.want || v.Class != c.class || len(met) > 0 && s.requests[len(met)-1].Floor != c.floor {
			t.Errorf("%v: class %q, rules %v, %+v", c.values, v.Class, met, s.requests)
		}
	}
}

// With default: deny, a rule lets a request pass only if it matches by every value.
func TestRepeatedValuesOfAllowedRequests(t *testing.T) {
	rules := named("members")
	rules[0].Match.Queries = []policy.ValueMatch{{Name: "plan", OneOf: []string{"pro", "team"}}}
	p := mustPolicy(t, policy.Options{Rules: rules, Default: policy.Deny})
	for _, path := range []string{"/", "/a/%2e%2e/b"} {
		for _, c := range []struct {
			values []string
			want   bool
		}{{[]string{"pro"}, true}, {[]string{"free"}, false}, {[]string{"free", "pro"}, false}, {[]string{"pro", "free"}, false}} {
			v := p.Decide(t.Context(), &stub{}, &policy.Attributes{Path: path, Values: several{"plan": c.values}})
			if v.Allowed() != c.want || !c.want && v.Reason != sluice.ReasonNoRule {
				t.Errorf("path %s, values %v: %s, want allowed %v", path, c.values, v.String(), c.want)
			}
		}
	}
}

// careful is a condition whose result is not certain.
type careful struct{ matches, certain bool }

func (c careful) Matches(*policy.Attributes) bool                       { return c.matches }
func (c careful) MatchesState(*policy.Attributes, condition.State) bool { return c.matches }
func (c careful) Uses() (bool, []string)                                { return false, nil }
func (c careful) MatchesCertainly(*policy.Attributes, condition.State) (bool, bool) {
	return c.matches, c.certain
}

// A condition that is uncertain lets its rule apply, and no exception hold.
func TestUncertainConditions(t *testing.T) {
	for _, c := range []struct{ matches, certain, rule, exception bool }{
		{true, true, true, false}, {false, true, false, true}, {true, false, true, true}, {false, false, true, true},
	} {
		rules := named("if", "unless")
		rules[0].Match.If = []policy.Matcher{careful{c.matches, c.certain}}
		rules[1].Match.Unless = []policy.Match{{If: rules[0].Match.If}}
		s := &stub{keep: true}
		mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), s, &policy.Attributes{})
		met := func(name string) bool {
			return slices.ContainsFunc(s.requests, func(r sluice.Request) bool { return r.Limit.Name() == name })
		}
		if met("if") != c.rule || met("unless") != c.exception {
			t.Errorf("%+v: the rule applies: %v, the rule with the exception: %v", c, met("if"), met("unless"))
		}
	}
}

// All printable bytes of a header are clear anywhere in it, spaces only within it, and others nowhere.
func TestPrintableHeaders(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			value := strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat("!", 19-at)
			a := &policy.Attributes{Values: several{"X-User": {value}}}
			want := policy.CountUnclear
			if around := at == 0 || at == 19; '!' <= c && c <= '~' || !around && (c == ' ' || c == '\t') {
				want = policy.CountOne
			}
			if got := a.Read(policy.FromHeader, "X-User"); got.Count != want || got.First != value {
				t.Errorf("header %q: %+v, want count %v", value, got, want)
			}
		}
	}
}

// A rule finds credentials and cookies by any spelling, in conditions, keys, lists and questions by rule.
func TestSpellingsOfRules(t *testing.T) {
	rules := named("token", "session", "scheme")
	rules[0].Key = []policy.Part{policy.Header("Authorization")}
	rules[0].DenyKeys = [][]string{{"bearer  denied"}}
	rules[1].Match.Cookies = []policy.ValueMatch{{Name: "session", OneOf: []string{"a%2Fb"}}}
	rules[1].Key = []policy.Part{policy.Cookie("session")}
	rules[2].Match.Headers = []policy.ValueMatch{{Name: "authorization", Prefixes: []string{"Bearer T"}}}
	p := mustPolicy(t, policy.Options{Rules: rules})
	var keys []string
	for _, c := range []struct{ token, session string }{{"Bearer T", "a%2Fb"}, {"bearer   T", "a/b"}, {"BEARER T", `"a%2fb"`}, {"T", "a/b"}} {
		s := &stub{keep: true}
		p.Decide(t.Context(), s, &policy.Attributes{Values: several{"Authorization": {c.token}, "session": {c.session}}})
		var key strings.Builder
		for i := range s.requests {
			key.WriteString(s.requests[i].Limit.Name() + ":" + s.requests[i].Key.Text() + " ")
		}
		keys = append(keys, key.String())
	}
	want := slices.Repeat([]string{"token:Bearer T session:a/b scheme:global "}, 3)
	want = append(want, "token:Bearer T session:a/b ") // a condition sees no scheme
	if !slices.Equal(keys, want) {
		t.Errorf("got %q; want %q", keys, want)
	}
	if v := p.Decide(t.Context(), &stub{}, &policy.Attributes{Values: several{"Authorization": {"Bearer denied"}}}); v.Reason != sluice.ReasonListed {
		t.Errorf("a denied token: %s", v.String())
	}
	s := &stub{keep: true}
	if _, err := p.DecideRule(t.Context(), s, policy.RuleRequest{Rule: "token", Key: []string{"bearer T"}}); err != nil || s.requests[0].Key.Text() != "Bearer T" {
		t.Errorf("by name, another spelling of the token: %v, requests %+v; want the same key", err, s.requests)
	}
}

// reader is a condition that lists what it reads.
type reader struct{ careful }

func (reader) Reads() []source.Value {
	return []source.Value{{Source: policy.FromHeader, Name: "x-of-expression"}, {Source: policy.FromCookie, Name: "c"}}
}

// The policy lists the headers that its rules and classes read.
func TestPoliciesListTheHeadersTheyRead(t *testing.T) {
	rules := named("a", "b", "c")
	rules[0].Key = []policy.Part{policy.Header("x-api-key"), policy.Claim("sub"), policy.Query("q")}
	rules[0].Cost = policy.Cost{Header: "X-Cost"}
	rules[1].Match.Unless = []policy.Match{{Headers: []policy.ValueMatch{{Name: "X-Plan"}}}}
	rules[2].Match.If = []policy.Matcher{reader{}}
	classes := []policy.Class{{Name: "k", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Class"}}}}}
	p := mustPolicy(t, policy.Options{Rules: rules, Classes: classes})
	want := []string{"Authorization", "Cookie", "X-Api-Key", "X-Class", "X-Of-Expression", "X-Plan"}
	if got := p.ValueHeaders(); !slices.Equal(got, want) {
		t.Errorf("ValueHeaders = %v", got)
	}
	if got := p.ReadHeaders(); !slices.Equal(got, slices.Insert(want, 4, "X-Cost")) {
		t.Errorf("ReadHeaders = %v", got)
	}
}
