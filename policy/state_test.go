package policy_test

import (
	"errors"
	"testing"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/policy"
)

// stateMatcher is a condition on a policy's state, not only on attributes.
type stateMatcher struct {
	marks     bool
	pressures []string
	ok        func(condition.State) bool
}

func (a stateMatcher) Uses() (marks bool, pressures []string) { return a.marks, a.pressures }
func (a stateMatcher) Matches(*policy.Attributes) bool {
	panic("Matches was called instead of MatchesState")
}

func (a stateMatcher) MatchesState(_ *policy.Attributes, s condition.State) bool {
	return a.ok(s)
}

// Conditions get a request's state in the policy: its class, its mark and the
// pressure.
func TestStateMatcher(t *testing.T) {
	always := func(name string, action policy.Action, condition stateMatcher) policy.Rule {
		return policy.Rule{Name: name, Always: true, Match: policy.Match{If: []policy.Matcher{condition}}, WhenLimited: policy.LimitedAction{Action: action}}
	}
	rules := []policy.Rule{
		always("class", policy.Deny, stateMatcher{ok: func(s condition.State) bool { return s.Class == "bulk" }}),
		always("drop", policy.Deny, stateMatcher{marks: true, pressures: []string{"mark"}, ok: func(s condition.State) bool {
			return s.Marked && s.Pressure != nil && s.Pressure("mark") > 1
		}}),
		always("mark", policy.Mark, stateMatcher{ok: func(condition.State) bool { return true }}),
	}
	classes := []policy.Class{
		{Name: "bulk", Match: policy.Match{If: []policy.Matcher{stateMatcher{ok: func(s condition.State) bool { return s.Class == "" && s.Marked }}}}},
		{Name: "other"},
	}
	for _, c := range []struct {
		marked   bool
		pressure float64
		action   policy.Action
		rule     string
	}{
		{false, 0, policy.Mark, ""},
		{false, 2, policy.Deny, "drop"},
		{true, 0, policy.Deny, "class"},
	} {
		p := mustPolicy(t, policy.Options{Rules: rules, Classes: classes, Pressure: func(string) float64 { return c.pressure }})
		v := p.Decide(t.Context(), &stub{}, &policy.Attributes{Marked: c.marked})
		if v.Action != c.action || c.rule != "" && v.Rule.Name != c.rule {
			t.Errorf("%+v: the verdict is %s", c, v.String())
		}
	}
	_, err := policy.New(policy.Options{Rules: []policy.Rule{always("a", policy.Deny, stateMatcher{pressures: []string{"b"}})}})
	var bad *policy.RuleError
	if !errors.As(err, &bad) || bad.Field != "Match.If[0]" || bad.Value != "b" {
		t.Errorf("a rule that does not exist: %v", err)
	}
}
