package granttest

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// TestUnitsOfOneKeyAreFollowed follows the units of one key through a grant, an exact decision, a batch, a report and a
// failover.
func TestUnitsOfOneKeyAreFollowed(t *testing.T) {
	now := int64(1_700_000_000_000_000)
	charged := int64(0)
	s := New(Options{
		Clock:   func() int64 { return now },
		Charged: func(c sluice.Charge, _ int64) { charged += c.Cost },
	})
	l, err := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 100}).WithHybrid(sluice.Hybrid{Stranded: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	k := sluice.StringKey("k")
	claim := func(c driver.Claim) driver.Grant {
		c.Limit, c.Key = l, k
		var out [1]driver.Grant
		s.Grant(t.Context(), 1, []driver.Claim{c}, out[:])
		return out[0]
	}
	decide := func(cost int64) sluice.Decision {
		d, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: k, Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if g := claim(driver.Claim{Seq: 1, Take: 10, Want: 40, Demand: 1}); g.Units != 40 || !g.Decision.Allowed || g.Free != 50 {
		t.Errorf("the first claim: %+v", g)
	}
	if g := claim(driver.Claim{Seq: 1, Take: 10, Want: 40, Demand: 1}); g.Units != 40 || !g.Decision.Allowed || charged != 10 {
		t.Errorf("the first claim again: %+v, %d charged", g, charged)
	}
	if decide(51).Allowed || !decide(20).Allowed || charged != 30 {
		t.Errorf("of 50 free units, %d were charged", charged)
	}
	before := s.Data()
	two := []sluice.Request{{Limit: l, Key: k, Cost: 20}, {Limit: l, Key: k, Cost: 10}}
	out := make([]sluice.Decision, 2)
	if err := s.DecideAll(t.Context(), two, out); err != nil || !out[0].Allowed || !out[1].Allowed {
		t.Errorf("a batch for all that is free: %+v, %v", out, err)
	}
	if err := s.DecideAll(t.Context(), two, out); err != nil || out[0].Allowed || charged != 60 {
		t.Errorf("a batch for more than is free: %+v, %v", out, err)
	}
	s.Restore(before)
	if g := claim(driver.Claim{Seq: 2, Birth: 1, Till: now + 2_000_000, Spent: 15, Returned: 25}); g.Free != 55 || g.Escrow != 0 {
		t.Errorf("the last claim: %+v", g)
	}
}
