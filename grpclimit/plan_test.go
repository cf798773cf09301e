package grpclimit_test

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/grpc/codes"
)

// A decider with plans of metadata needs TrustPlan, and calls it for each call: only trusted calls have the numbers of a plan.
func TestCallsOfTrustedHopsNamePlans(t *testing.T) {
	p := must(policy.New(policy.Options{
		Rules:    []policy.Rule{{Name: "r", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}}},
		Plans:    []policy.Plan{{Name: "gold", Limits: map[string][]*sluice.Limit{"r": {perDay(3)}}}},
		PlanFrom: []policy.Part{policy.Header("X-Plan")}, DenyUnknownPlans: true,
	}))
	o := grpclimit.PolicyOptions{Policy: p, Store: must(memory.New(memory.Options{}))}
	if _, err := grpclimit.NewPolicyDecider(o); err == nil || !strings.Contains(err.Error(), "TrustPlan is missing") {
		t.Errorf("a decider without TrustPlan is made, with the error %v", err)
	}
	trusted := false
	o.TrustPlan = func(*grpclimit.Call) bool { return trusted }
	conn := serve(t, &service{}, limited(t, must(grpclimit.NewPolicyDecider(o)), grpclimit.ServerOptions{}))
	want(t, call(with("x-plan", "golden"), conn), codes.OK) // nobody may name a plan
	want(t, call(with("x-plan", "gold"), conn), codes.ResourceExhausted)
	trusted = true
	want(t, call(with("x-plan", "golden"), conn), codes.PermissionDenied)
	want(t, call(with("x-plan", "gold"), conn), codes.OK)
	want(t, call(with("x-plan", "gold"), conn), codes.OK)
	want(t, call(with("x-plan", "gold"), conn), codes.ResourceExhausted)
}
