package decisions

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestUndoKeepsALeaseThatWasHeld: a batch over slots that renews a lease, and is denied
// in another slot, does not end the lease.
func TestUndoKeepsALeaseThatWasHeld(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := adapters.Rueidis.Open(t, adapters.ToCluster(cluster), redisstore.Options{})
	leases := sluice.MustLimit("leases", sluice.Concurrency{Max: 1, TTL: time.Minute})
	spent := sluice.MustLimit("spent", sluice.TokenBucket{Rate: sluice.PerDay(1)})
	lease := sluice.Request{Limit: leases, Key: sluice.StringKey("a"), Cost: 1, Member: 7}
	take := sluice.Request{Limit: spent, Key: sluice.StringKey("b"), Cost: 1}
	out := make([]sluice.Decision, 2)
	for i, allowed := range []bool{true, false} {
		if err := store.DecideAll(t.Context(), []sluice.Request{lease, take}, out); err != nil {
			t.Fatal(err)
		}
		if !out[0].Allowed || out[1].Allowed != allowed {
			t.Fatalf("batch %d: %+v", i, out)
		}
	}
	if err := store.Release(t.Context(), lease.Charge(&out[0]), 0); err != nil {
		t.Errorf("the lease is gone: %v", err)
	}
}
