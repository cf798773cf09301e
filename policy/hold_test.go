package policy_test

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// A policy of one plain rule gives its request the hold of the attributes, and none without it. A debit has none.
func TestASingleRuleHolds(t *testing.T) {
	p := mustSingle(t, policy.Rule{Key: []policy.Part{policy.Header("X-User")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(10)})}})
	user := values{header: map[string]string{"X-User": "ann"}}
	for _, hold := range []time.Duration{time.Minute, 0} {
		v := p.Decide(t.Context(), mustMemory(t), &policy.Attributes{Values: user, Hold: hold})
		if r := v.Results[0]; !v.Allowed() || r.Request.Hold != hold || r.IsLease() || (r.Decision.Receipt.Over != 0) != (hold > 0) {
			t.Errorf("a hold of %v: %+v", hold, r)
		}
	}
	q := policy.RuleRequest{Rule: "r", Debit: true, Hold: time.Minute}
	rules := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("r", 10, policy.Deny)}})
	if v, err := rules.DecideRule(t.Context(), mustMemory(t), q); err != nil || !v.Allowed() || v.Results[0].Request.Hold != 0 {
		t.Errorf("a debit: %+v, %v", v.Results, err)
	}
}
