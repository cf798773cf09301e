package policy_test

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// A cost has units to take before the request is handled, and actual units afterwards.
// NoCost takes nothing, where zero means one unit.
func TestNoCostTakesNothing(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
		{Name: "r", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(9)})}},
		{Name: "own", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(9)})}, Cost: policy.Cost{Units: 3}},
	}})
	for _, step := range []struct{ cost, left, own int64 }{{policy.NoCost, 9, 6}, {0, 8, 3}, {2, 6, 0}} {
		v := p.Decide(t.Context(), store, &policy.Attributes{Cost: step.cost})
		if left, own := v.Results[0].Decision.Remaining, v.Results[1].Decision.Remaining; !v.Allowed() || left != step.left || own != step.own {
			t.Errorf("a cost of %d: %d and %d left, %v; want %+v", step.cost, left, own, &v, step)
		}
	}
	for _, step := range []struct{ cost, left int64 }{{policy.NoCost, 6}, {0, 5}, {2, 3}} {
		v, err := p.DecideRule(t.Context(), store, policy.RuleRequest{Rule: "r", Cost: step.cost})
		if err != nil || v.Tightest.Remaining != step.left {
			t.Errorf("DecideRule with %d: %v, %v; want %d left", step.cost, &v, err, step.left)
		}
	}
}

// A charge is taken by the cost's source, and settled where the real cost is known later.
func TestCostSources(t *testing.T) {
	header := func(v string) func(string) (string, bool) {
		return func(name string) (string, bool) { return v, name == "X-Tokens" && v != "" }
	}
	for _, c := range []struct {
		name    string
		cost    policy.Cost
		counts  []policy.StatusRange
		a       policy.Attributes
		taken   int64
		settles bool
		outcome policy.Outcome
		actual  int64
	}{
		{name: "constant", cost: policy.Cost{Units: 3}, taken: 3, actual: 3},
		{name: "request bytes", cost: policy.Cost{Source: policy.CostRequestBytes}, a: policy.Attributes{RequestBytes: 40}, taken: 40, settles: true, outcome: policy.Outcome{RequestBytes: 40}, actual: 40},
		{name: "fewer than declared", cost: policy.Cost{Source: policy.CostRequestBytes}, a: policy.Attributes{RequestBytes: 40}, taken: 40, settles: true, outcome: policy.Outcome{RequestBytes: 7}, actual: 7},
		{name: "no body", cost: policy.Cost{Source: policy.CostRequestBytes}, taken: 0, settles: true, actual: 0},
		{name: "unknown size", cost: policy.Cost{Source: policy.CostRequestBytes, Estimate: 20}, a: policy.Attributes{RequestBytes: -1}, taken: 20, settles: true, outcome: policy.Outcome{RequestBytes: 90}, actual: 90},
		{name: "unknown size, no estimate", cost: policy.Cost{Source: policy.CostRequestBytes}, a: policy.Attributes{RequestBytes: -1}, taken: 1, settles: true, outcome: policy.Outcome{RequestBytes: 5}, actual: 5},
		{name: "capped size", cost: policy.Cost{Source: policy.CostRequestBytes, Max: 30}, a: policy.Attributes{RequestBytes: 40}, taken: 30, settles: true, outcome: policy.Outcome{RequestBytes: 40}, actual: 30},
		{name: "response bytes", cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 10, Max: 60}, taken: 10, settles: true, outcome: policy.Outcome{ResponseBytes: 50}, actual: 50},
		{name: "capped response", cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 10, Max: 60}, taken: 10, settles: true, outcome: policy.Outcome{ResponseBytes: 70}, actual: 60},
		{name: "response header", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Header: header("33")}, actual: 33},
		{name: "a header of zero", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Header: header("0")}, actual: 0},
		{name: "a header that is absent", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Header: header("")}, actual: 10},
		{name: "no headers", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, actual: 10},
		{name: "a header that is not a number", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Header: header("-5")}, actual: 10},
		{name: "a capped header", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10, Max: 15}, taken: 10, settles: true, outcome: policy.Outcome{Header: header("99")}, actual: 15},
		{name: "a status that counts", counts: []policy.StatusRange{policy.Status(401), {500, 599}}, taken: 1, settles: true, outcome: policy.Outcome{Status: 502}, actual: 1},
		{name: "sent bytes of an unknown outcome", cost: policy.Cost{Source: policy.CostRequestBytes, Estimate: 20}, a: policy.Attributes{RequestBytes: -1}, taken: 20, settles: true, outcome: policy.Outcome{Unknown: true, RequestBytes: 3}, actual: 20},
		{name: "declared bytes of an unknown outcome", cost: policy.Cost{Source: policy.CostRequestBytes, Estimate: 20}, a: policy.Attributes{RequestBytes: 4000}, taken: 4000, settles: true, outcome: policy.Outcome{Unknown: true, RequestBytes: 300}, actual: 300},
		{name: "an unknown response", cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 10}, counts: []policy.StatusRange{policy.Status(401)}, taken: 10, settles: true, outcome: policy.Outcome{Unknown: true, Status: 200}, actual: 10},
		{name: "a small part of a response", cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Partial: true, Status: 200, ResponseBytes: 3}, actual: 10},
		{name: "a large part of a response", cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Partial: true, Status: 200, ResponseBytes: 30}, actual: 30},
		{name: "the header of an unknown response", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Unknown: true, Header: header("3")}, actual: 10},
		{name: "the header of a part of a response", cost: policy.Cost{Source: policy.CostResponseHeader, Header: "x-tokens", Estimate: 10}, taken: 10, settles: true, outcome: policy.Outcome{Partial: true, Status: 200, Header: header("3")}, actual: 3},
		{name: "a status that does not count", counts: []policy.StatusRange{policy.Status(401)}, taken: 1, settles: true, outcome: policy.Outcome{Status: 200}, actual: 0},
		{
			name: "bytes of a status that does not count", counts: []policy.StatusRange{{200, 299}},
			cost: policy.Cost{Source: policy.CostResponseBytes}, taken: 1, settles: true, outcome: policy.Outcome{Status: 500, ResponseBytes: 40}, actual: 0,
		},
	} {
		rules := named("r")
		rules[0].Cost, rules[0].CountStatus = c.cost, c.counts
		s := &stub{keep: true}
		v := mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), s, &c.a)
		m := &v.Results[0]
		if s.requests[0].Cost != c.taken || m.Settles() != c.settles || m.Actual(c.outcome) != c.actual {
			t.Errorf("%s: %d taken, settles %v at %d", c.name, s.requests[0].Cost, m.Settles(), m.Actual(c.outcome))
		}
	}
}

// A decision without a rule is not settled, and a lease is released instead of settled.
func TestNothingToSettle(t *testing.T) {
	m := policy.LimitResult{Request: sluice.Request{Cost: 4}}
	if m.Settles() || m.Actual(policy.Outcome{Status: 500}) != 4 {
		t.Error("a decision without a rule settles")
	}
	rules := named("r")
	rules[0].CountStatus = []policy.StatusRange{policy.Status(401)}
	rules[0].Limits = append(rules[0].Limits, sluice.MustLimit("flight", sluice.Concurrency{Max: 5}))
	v := mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), &stub{}, &policy.Attributes{})
	if !v.Results[0].Settles() || v.Results[1].Settles() {
		t.Error("a lease is settled, or the bucket beside it is not")
	}
}

// Over a store, only failed logins count, although every login is charged first.
func TestCountsStatuses(t *testing.T) {
	rule := global("login", 3, policy.Deny)
	rule.CountStatus = []policy.StatusRange{policy.Status(401)}
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}}), mustMemory(t)
	for i, status := range []int{200, 401, 200, 401, 200, 200, 401, 0} {
		v := p.Decide(t.Context(), store, &policy.Attributes{})
		if status == 0 {
			if v.Allowed() {
				t.Errorf("a fourth attempt after three failed ones: %s", v.String())
			}
			break
		}
		if !v.Allowed() {
			t.Fatalf("attempt %d: %s", i, v.String())
		}
		if err := store.Settle(t.Context(), v.Charges()[0], v.Results[0].Actual(policy.Outcome{Status: status})); err != nil {
			t.Fatal(err)
		}
	}
}

// The policy reports a queue's defaults.
func TestQueuesHaveDefaults(t *testing.T) {
	for _, c := range []struct{ queue, key, wantQueue, wantKey int }{
		{0, 0, 1024, 256}, {2, 0, 2, 1}, {100, 0, 100, 25}, {100, 100, 100, 100}, {0, 2000, 2000, 2000},
	} {
		rules := named("r")
		rules[0].MaxWaiting, rules[0].MaxWaitingPerKey = c.queue, c.key
		r := mustPolicy(t, policy.Options{Rules: rules}).Rule("r")
		if r.MaxWaiting != c.wantQueue || r.MaxWaitingPerKey != c.wantKey {
			t.Errorf("%+v: the queue has %d requests, and %d for each key", c, r.MaxWaiting, r.MaxWaitingPerKey)
		}
	}
}
