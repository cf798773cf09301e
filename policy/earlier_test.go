package policy_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// A policy that replaces another uses the earlier policy's limits wherever they are
// equal, and only there.
func TestEarlierLimitsAreShared(t *testing.T) {
	berlin := func() *time.Location {
		zone, err := time.LoadLocation("Europe/Berlin") // a new pointer each time
		if err != nil {
			t.Fatal(err)
		}
		return zone
	}
	build := func(burst int64, earlier *policy.Policy) *policy.Policy {
		p, err := policy.New(policy.Options{Earlier: earlier, Rules: []policy.Rule{
			{
				Name: "same", Key: []policy.Part{policy.ClientIP()},
				Limits:    []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(10), Calendar: sluice.CalendarDay, Zone: berlin()})},
				Candidate: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(3)})},
				Overrides: []policy.Override{{
					Key:    []string{"192.0.2.7"},
					Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(7)})},
				}},
			},
			{
				Name: "changed", Key: []policy.Part{policy.ClientIP()},
				Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: burst})},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old := build(5, nil)
	next := build(6, old)
	for _, client := range []string{"192.0.2.1", "192.0.2.7"} {
		a := &policy.Attributes{ClientIP: netip.MustParseAddr(client)}
		was, is := old.LimitsFor(a), next.LimitsFor(a)
		if len(was) != 3 || len(is) != 3 {
			t.Fatalf("%s has %d limits before, and %d after", client, len(was), len(is))
		}
		for i := range is {
			same := is[i].Request.Limit == was[i].Request.Limit
			if want := is[i].Rule.Name == "same"; same != want {
				t.Errorf("%s: %v is the earlier limit: %t, want %t", client, is[i].Request.Limit, same, want)
			}
		}
	}
	if next.Rule("same").Limits[0] != old.Rule("same").Limits[0] || next.Rule("same").Candidate[0] != old.Rule("same").Candidate[0] {
		t.Error("the rule's limits are not the limits that it decides")
	}
	if got := next.Rule("changed").Limits[0].Capacity(); got != 6 {
		t.Errorf("the changed limit has capacity %d", got)
	}
}
