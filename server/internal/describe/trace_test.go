package describe

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/policy"
)

// TestEachUnmetConditionHasItsWords: each condition that can fail has its words.
func TestEachUnmetConditionHasItsWords(t *testing.T) {
	for _, c := range []struct {
		unmet condition.Unmet
		want  string
	}{
		{condition.Unmet{Condition: condition.Bypass, Name: "free"}, "class free bypasses all rules"},
		{condition.Unmet{Condition: condition.Host, Value: "a.example.com", OneOf: []string{"b.example.com"}}, `the host "a.example.com" is not b.example.com`},
		{condition.Unmet{Condition: condition.Path, Value: "/b/c", OneOf: []string{"/b", "/c"}}, "the path /b/c is none of /b, /c"},
		{
			condition.Unmet{Condition: condition.Path, Value: "/b/c", OneOf: []string{"/1", "/2", "/3", "/4", "/5", "/6"}},
			"the path /b/c is none of /1, /2, /3, /4, /5 and 1 more",
		},
		{condition.Unmet{Condition: condition.Method, Value: "GET", OneOf: []string{"POST"}}, "the method GET is not POST"},
		{condition.Unmet{Condition: condition.Class, Value: "plain"}, "the class plain is not the rule's"},
		{condition.Unmet{Condition: condition.Class, Missing: true}, "the request has no class"},
		{condition.Unmet{Condition: condition.Marked}, "the request is not marked"},
		{condition.Unmet{Condition: condition.Marked, Name: "contract"}, "the request is not marked, unless rule contract marks it"},
		{condition.Unmet{Condition: condition.Unmarked}, "the request is marked"},
		{
			condition.Unmet{Condition: condition.Header, Name: "X-Plan", Value: "free", OneOf: []string{"pro"}, Prefixes: []string{"gold"}},
			`the header X-Plan is "free", none of "pro", "gold"…`,
		},
		{condition.Unmet{Condition: condition.Header, Name: "X-Plan", Value: "free", OneOf: []string{"pro"}}, `the header X-Plan is "free", not "pro"`},
		{condition.Unmet{Condition: condition.Header, Name: "X-Plan", Value: "free"}, "the header X-Plan is present"},
		{condition.Unmet{Condition: condition.Cookie, Name: "s", Missing: true}, "the cookie s is missing"},
		{condition.Unmet{Condition: condition.Query, Name: "r", Missing: true}, "the parameter r is missing"},
		{condition.Unmet{Condition: condition.Attribute, Name: "tenant", Missing: true}, "the attribute tenant is missing"},
		{condition.Unmet{Condition: condition.ClientIP, Value: "192.0.2.1"}, "the client 192.0.2.1 is in none of the networks"},
		{condition.Unmet{Condition: condition.ClientIP, Missing: true}, "the client's address is unknown"},
		{condition.Unmet{Condition: condition.If}, "a condition is false"},
		{condition.Unmet{Condition: condition.If, Name: "from this machine"}, "the condition is false: from this machine"},
		{
			condition.Unmet{Condition: condition.Pressure, Name: "other", Pressure: 0.5, AtLeast: 0.9},
			"the pressure on rule other is 0.5, and must be 0.9 or more",
		},
		{
			condition.Unmet{Condition: condition.Pressure, Name: "other", Missing: true, AtLeast: 0.9},
			"the pressure on rule other is unknown, and must be 0.9 or more",
		},
		{condition.Unmet{Condition: condition.Unless, Exception: 1, Exceptions: 1}, "its exception matches"},
		{condition.Unmet{Condition: condition.Unless, Exception: 2, Exceptions: 2}, "exception 2 of 2 matches"},
		{
			condition.Unmet{Condition: condition.Key, Name: "header:X-User", Missing: true},
			"the key's part header:X-User is missing, and the rule skips such requests",
		},
	} {
		if got := unmet(&c.unmet); got != c.want {
			t.Errorf("%+v: %q, want %q", c.unmet, got, c.want)
		}
	}
}

// A trace and a verdict describe a rule's limits in the same words, and as the same JSON.
func TestTraceAndVerdictAgree(t *testing.T) {
	rule := global("api", policy.Deny)
	rule.Cost.Units, rule.Floor = 2, 1
	rule.Candidate = perDay(5)
	p := compiled(t, policy.Options{Rules: []policy.Rule{rule}})
	a := policy.Attributes{Method: "GET", Path: "/", ClientIP: netip.MustParseAddr("192.0.2.1")}
	trace := p.Trace(&a)
	v := p.Decide(t.Context(), denying(""), &a)
	var undecided []string
	for line := range strings.Lines(new(Phrases).Verdict(&v)) {
		if !strings.HasPrefix(line, "    so ") {
			undecided = append(undecided, strings.TrimSpace(line))
		}
	}
	for _, line := range undecided[1:] {
		if !strings.Contains(Trace(&trace, false), line) {
			t.Errorf("the trace lacks %q:\n%s", line, Trace(&trace, false))
		}
	}
	e := NewExplanation(&trace, false)
	for i := range v.Results {
		if got := new(Phrases).LimitResult(&v.Results[i]); len(v.Results) != 2 || got != e.Rules[0].Limits[i].LimitResult {
			t.Errorf("the verdict has %+v, and the trace %+v", got, e.Rules[0].Limits[i])
		}
	}
}
