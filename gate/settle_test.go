package gate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// A request's actual cost is settled when it leaves.
func TestCostsAreSettledWhenRequestsLeave(t *testing.T) {
	header := func(text string) func(string) (string, bool) {
		return func(name string) (string, bool) { return text, name == "X-Tokens" && text != "" }
	}
	failures := []policy.StatusRange{policy.Status(401), {From: 500, To: 599}}
	for _, c := range []struct {
		name    string
		cost    policy.Cost
		counts  []policy.StatusRange
		outcome policy.Outcome
		taken   int64 // while the request is handled
		cost2   int64 // after it left
	}{
		{"a constant", policy.Cost{Units: 3}, nil, status(200), 3, 3},
		{"a status that counts", policy.Cost{Units: 3}, failures, status(401), 3, 3},
		{"a status in a range", policy.Cost{}, failures, status(503), 1, 1},
		{"a status that does not count", policy.Cost{Units: 3}, failures, status(200), 3, 0},
		{"sent bytes", policy.Cost{Source: policy.CostRequestBytes, Estimate: 10}, nil, policy.Outcome{RequestBytes: 25}, 10, 25},
		{"fewer", policy.Cost{Source: policy.CostRequestBytes, Estimate: 10}, nil, policy.Outcome{RequestBytes: 2}, 10, 2},
		{"received bytes", policy.Cost{Source: policy.CostResponseBytes, Estimate: 10}, nil, policy.Outcome{ResponseBytes: 33}, 10, 33},
		{"with a cap", policy.Cost{Source: policy.CostResponseBytes, Estimate: 10, Max: 20}, nil, policy.Outcome{ResponseBytes: 33}, 10, 20},
		{"tokens", policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 10}, nil, policy.Outcome{Header: header("17")}, 10, 17},
		{"no tokens", policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 10}, nil, policy.Outcome{Header: header("")}, 10, 10},
		{"bad tokens", policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 10}, nil, policy.Outcome{Header: header("-17")}, 10, 10},
		{"tokens of a status that does not count", policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 10}, failures, policy.Outcome{Status: 200, Header: header("17")}, 10, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{
				Name: "r", Cost: c.cost, CountStatus: c.counts, Limits: limit(sluice.FixedWindow{Rate: sluice.PerHour(100)}),
			})
			n := e.enter(t.Context(), "a")
			if got := e.remaining("r", "a"); n.err != nil || got != 100-c.taken {
				t.Errorf("%s: %d units are left while it is handled, %v", c.name, got, n.err)
			}
			if settles := c.cost.Source > policy.CostHeader || len(c.counts) > 0; n.admission.Settles() != settles {
				t.Errorf("%s: Settles is %v", c.name, n.admission.Settles())
			}
			n.admission.Leave(t.Context(), c.outcome)
			n.admission.Leave(t.Context(), status(404))
			if got := e.remaining("r", "a"); got != 100-c.cost2 || len(e.reported()) > 0 {
				t.Errorf("%s: %d units are left in the end; reported %v", c.name, got, e.reported())
			}
		})
	}
}

// Shadow rules settle too, and leases have nothing to settle.
func TestSettlingOfAllCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := sluice.FixedWindow{Rate: sluice.PerHour(100)}
		bytes := policy.Cost{Source: policy.CostResponseBytes}
		e := newEdge(t, bubbleStore(t), gate.Options{},
			policy.Rule{Name: "a", Limits: limit(many), Cost: bytes},
			policy.Rule{Name: "b", Limits: limit(many), Cost: bytes, Shadow: true},
			policy.Rule{Name: "c", Limits: limit(many), Cost: bytes, WhenLimited: policy.LimitedAction{Action: policy.Mark}},
			policy.Rule{Name: "d", Limits: limit(sluice.Concurrency{Max: 100}), CountStatus: []policy.StatusRange{policy.Status(401)}},
			policy.Rule{Name: "e", Limits: limit(many), Candidate: limit(sluice.TokenBucket{Rate: sluice.PerHour(50)}), Cost: bytes},
		)
		n := e.enter(t.Context(), "k")
		n.admission.Leave(t.Context(), policy.Outcome{Status: 200, ResponseBytes: 7})
		var left []int64
		for _, m := range e.decide(t.Context(), "k").Results {
			left = append(left, m.Decision.Remaining)
		}
		if got := fmt.Sprint(left); got != "[92 92 92 99 92 42]" || len(e.reported()) > 0 {
			t.Errorf("remaining: %v; reported %v", got, e.reported())
		}
	})
}

// Options.Counts applies to all rules.
func TestCountsApplyToAllRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := gate.Options{Counts: func(o policy.Outcome) bool { return o.Status == 401 }}
		e := newEdge(t, bubbleStore(t), o, policy.Rule{Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerHour(5)})})
		for i, code := range []int{200, 401, 500, 401} {
			n := e.enter(t.Context(), "a")
			if !n.admission.Settles() {
				t.Error("the outcome is not used")
			}
			n.admission.Leave(t.Context(), status(code))
			if got := e.remaining("r", "a"); got != 5-int64(i+1)/2 {
				t.Errorf("after request %d there are %d left", i, got)
			}
		}
	})
}

// brokenEnds fails every method that ends a charge.
type brokenEnds struct {
	sluice.Store
	err error
}

func (b brokenEnds) Settle(context.Context, sluice.Charge, int64) error { return b.err }

// A failed settlement is reported.
func TestFailedSettlementsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		e := newEdge(t, brokenEnds{bubbleStore(t), broken}, gate.Options{}, policy.Rule{
			Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerHour(5)}), Cost: policy.Cost{Source: policy.CostResponseBytes},
		})
		ctx, cancel := context.WithCancel(t.Context())
		n := e.enter(ctx, "a")
		cancel() // a client that leaves changes nothing
		n.admission.Leave(ctx, status(200))
		if errs := e.reported(); len(errs) != 1 || !errors.Is(errs[0], broken) {
			t.Errorf("reported %v", errs)
		}
	})
}

// A charge with a hold is settled when the request ends, also if its cost is what was taken. Without an end, it comes back.
func TestChargesWithAHoldAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{
			Name: "r", Cost: policy.Cost{Units: 3}, MaxWait: time.Second,
			Limits: []*sluice.Limit{sluice.MustLimit("day", sluice.FixedWindow{Rate: sluice.PerDay(10)}), sluice.MustLimit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(100), Queue: 99, Undelayed: 99})},
		})
		ask := func() (policy.Verdict, *gate.Admission) {
			v := e.rules.Decide(t.Context(), e.store, &policy.Attributes{Path: "/", Values: key("a"), Hold: time.Minute})
			a, err := e.gate.Enter(t.Context(), &v)
			if err != nil {
				t.Fatal(err)
			}
			if first, second := v.Results[0].Request, v.Results[1].Request; first.Hold != time.Minute || first.MaxWait != sluice.NoWait || second.Hold != 0 {
				t.Errorf("the requests are %+v and %+v", first, second)
			}
			return v, a
		}
		_, ended := ask()
		ended.Leave(t.Context(), status(200))
		ask() // and never leaves
		<-time.After(time.Minute)
		if v, _ := ask(); v.Results[0].Decision.Remaining != 4 {
			t.Errorf("%d remain, want 4: one request ended, one was abandoned, and one is there", v.Results[0].Decision.Remaining)
		}
	})
}
