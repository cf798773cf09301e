package policy_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Reserved units are kept from all other classes, to the unit.
func TestReservedUnitsAreKept(t *testing.T) {
	class := func(name string) policy.Class {
		return policy.Class{Name: name, Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Class", OneOf: []string{name}}}}}
	}
	rule := global("r", 10, policy.Deny)
	rule.Reserved = []policy.Reserve{
		{Share: 15, For: []string{"critical"}}, // two of ten
		{Units: 4, For: []string{"critical", "paying"}},
	}
	rule.Limits = append(rule.Limits, sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(10)}))
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}, Classes: []policy.Class{class("critical"), class("paying"), class("other")}})
	as := func(name string) *policy.Attributes {
		return &policy.Attributes{Values: values{header: map[string]string{"X-Class": name}}}
	}
	take := func(store sluice.Store, name string) (n int) {
		for ; n < 20; n++ {
			if v := p.Decide(t.Context(), store, as(name)); !v.Allowed() {
				break
			}
		}
		return n
	}
	store := mustMemory(t)
	for _, c := range []struct {
		class string
		want  int
	}{{"", 6}, {"other", 0}, {"paying", 2}, {"", 0}, {"critical", 2}, {"critical", 0}} {
		if n := take(store, c.class); n != c.want {
			t.Errorf("class %q takes %d, want %d", c.class, n, c.want)
		}
	}
	v := p.Peek(t.Context(), mustMemory(t), as("paying"))
	if v.Tightest.Remaining != 8 || v.Results[0].Request.Floor != 2 || v.Class != "paying" {
		t.Errorf("paying traffic: %s", v.String())
	}
	for _, c := range []struct {
		class string
		floor int64
	}{{"", 4}, {"other", 4}, {"paying", 2}, {"critical", 0}} {
		v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "r", Class: c.class})
		if err != nil || v.Results[1].Request.Floor != c.floor || v.Class != c.class {
			t.Errorf("DecideRule for class %q: %v, %s", c.class, err, v.String())
		}
	}
	var bad *policy.RuleRequestError
	if _, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "r", Class: "none"}); !errors.As(err, &bad) {
		t.Errorf("an unknown class: %v", err)
	}
}

// A reserve holds for every schedule: ordinary traffic never takes reserved units, and
// important traffic can take them all.
func TestReservesHoldForEverySchedule(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for round := range 200 {
		capacity, share := 1+r.Int64N(200), 1+r.IntN(99)
		kept := (capacity*int64(share) + 99) / 100
		rule := global("r", capacity, policy.Deny)
		rule.Reserved = []policy.Reserve{{Share: share, For: []string{"critical"}}}
		p, err := policy.New(policy.Options{Rules: []policy.Rule{rule}, Classes: []policy.Class{{Name: "critical", Match: policy.Match{Methods: []string{"PUT"}}}}})
		if (err != nil) != (kept >= capacity) {
			t.Fatalf("round %d: %d%% of %d: %v", round, share, capacity, err)
		}
		if err != nil {
			continue
		}
		store, taken := mustMemory(t), int64(0)
		for range 50 {
			cost, method := 1+r.Int64N(capacity), []string{"GET", "PUT"}[r.IntN(2)]
			v := p.Decide(t.Context(), store, &policy.Attributes{Method: method, Cost: cost})
			may := capacity
			if method == "GET" {
				may -= kept
			}
			if v.Allowed() != (taken+cost <= may) {
				t.Fatalf("round %d: %s of %d, after %d of %d with %d kept: %s", round, method, cost, taken, capacity, kept, v.String())
			}
			if v.Allowed() {
				taken += cost
			}
		}
	}
}
