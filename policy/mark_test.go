package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// markPolicy marks requests beyond a contract, and drops marked requests during congestion.
func markPolicy(tb testing.TB, pressure func(string) float64) *policy.Policy {
	tb.Helper()
	drop := global("drop", 1, policy.Deny)
	drop.Limits = perDay(1)
	drop.Match = policy.Match{Marked: new(bool), Pressure: 0.9, PressureOf: "all"}
	*drop.Match.Marked = true
	return mustPolicy(tb, policy.Options{Pressure: pressure, Rules: []policy.Rule{drop, global("contract", 2, policy.Mark), global("all", 100, policy.Deny)}})
}

// During congestion, marked traffic is dropped first, even if another server marked it.
func TestCongestionDropsMarkedTrafficFirst(t *testing.T) {
	pressure := 0.5
	p := markPolicy(t, func(string) float64 { return pressure })
	store := mustMemory(t)
	decide := func(marked bool) string {
		v := p.Decide(t.Context(), store, &policy.Attributes{Marked: marked})
		names := make([]string, len(v.Results))
		for i, m := range v.Results {
			names[i] = m.Rule.Name
		}
		return v.Action.String() + " " + strings.Join(names, " ")
	}
	for i, step := range []struct {
		marked   bool
		pressure float64
		want     string
	}{
		{false, 0.5, "allow contract all"},
		{true, 0.5, "allow contract all"}, // the contract is used up now
		{false, 0.5, "mark contract all"},
		{false, 0.9, "mark drop contract all"},
		{false, 0.9, "deny drop contract all"}, // the rule that drops allows one
		{true, 0.9, "deny drop contract all"},
		{false, 0.5, "mark contract all"},
	} {
		pressure = step.pressure
		if got := decide(step.marked); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if n := remaining(t, p, store, "all"); n != 95 {
		t.Errorf("%d of 100 remain after five allowed requests", n)
	}
}

// Rules that mark are decided first only if another rule matches marks.
func TestMarksAreDecidedFirst(t *testing.T) {
	p := markPolicy(t, func(string) float64 { return 1 })
	for _, c := range []struct {
		marked        bool
		allow         bool
		single, batch int
		action        policy.Action
	}{
		{false, true, 2, 0, policy.Allow},
		{false, false, 1, 1, policy.Mark},
		{true, true, 0, 1, policy.Allow},
		{true, false, 0, 1, policy.Mark},
	} {
		s := &stub{answer: func(r *sluice.Request) sluice.Decision {
			if r.Limit.Name() == "contract" && !c.allow {
				return denied(sluice.ReasonLimited, time.Second)
			}
			return allowed(5, 10, 0)
		}}
		v := p.Decide(t.Context(), s, &policy.Attributes{Marked: c.marked})
		if s.single != c.single || s.batch != c.batch || v.Action != c.action {
			t.Errorf("%+v: %d requests and %d batches: %s", c, s.single, s.batch, v.String())
		}
	}
	// An error of the first request fails all.
	broken := errors.New("broken")
	v := p.Decide(t.Context(), &stub{err: broken}, &policy.Attributes{})
	if !errors.Is(v.Err, broken) || v.Reason != sluice.ReasonStoreError || len(v.Results) != 2 || len(v.Charges()) != 0 {
		t.Errorf("a store that fails: %s", v.String())
	}
	// An error of the second request leaves the first charge to the edge.
	s := &stub{fails: func(rs []sluice.Request) error {
		if rs[0].Limit.Name() == "contract" {
			return nil
		}
		return broken
	}}
	v = p.Decide(t.Context(), s, &policy.Attributes{})
	if !errors.Is(v.Err, broken) || len(v.Results) != 2 || len(v.Charges()) != 1 {
		t.Errorf("a store that fails later: %s", v.String())
	}
}

// A request that is refused without the store gives back the charge of its mark.
func TestMarkOfRefused(t *testing.T) {
	marked := true
	refuse := policy.Rule{
		Name: "refuse", Match: policy.Match{Unless: []policy.Match{{Marked: &marked}}},
		Key: []policy.Part{policy.Header("X").IfMissing(policy.MissingDeny)}, Limits: perDay(5),
	}
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("contract", 2, policy.Mark), refuse}}), mustMemory(t)
	for i := range 4 {
		if v := p.Decide(t.Context(), store, &policy.Attributes{}); v.Reason != sluice.ReasonMissingKey {
			t.Errorf("request %d: %s", i, v.String())
		}
	}
	if n := remaining(t, p, store, "contract"); n != 2 {
		t.Errorf("%d of 2 remain", n)
	}
}
