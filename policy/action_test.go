package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
)

// A rule changes requests and answers only as its action says.
func TestRulesChangeOnlyByTheirActions(t *testing.T) {
	fallback := global("fallback", 1, policy.Degrade)
	fallback.WhenLimited.Upstream = "http://fallback.example.com"
	static := global("static", 1, policy.Degrade)
	static.WhenLimited.Body = "later"
	own := global("own", 1, policy.Mark)
	own.WhenLimited.RequestHeader = map[string]string{"x-scavenger": "1"}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
		global("deny", 1, policy.Allow), global("mark", 1, policy.Mark), global("less", 1, policy.Degrade), fallback, static, own,
	}})
	for _, c := range []struct {
		rule    string
		action  policy.Action
		answers bool
		header  map[string]string
	}{
		{"deny", policy.Deny, false, nil},
		{"mark", policy.Mark, false, map[string]string{removal.Marked: "mark"}},
		{"less", policy.Degrade, false, map[string]string{removal.Degraded: "less"}},
		{"fallback", policy.Degrade, false, nil},
		{"static", policy.Degrade, true, nil},
		{"own", policy.Mark, false, map[string]string{"x-scavenger": "1"}},
	} {
		r := p.Rule(c.rule).WhenLimited
		if r.Action != c.action || r.Answers() != c.answers || fmt.Sprint(r.RequestHeader) != fmt.Sprint(c.header) {
			t.Errorf("rule %s does %+v when limited, want %+v", c.rule, r, c)
		}
	}
	if got, want := p.RequestHeaders(), []string{"Sluice-Degraded", "Sluice-Marked", "X-Scavenger"}; !slices.Equal(got, want) {
		t.Errorf("headers to strip: %q", got)
	}
}
