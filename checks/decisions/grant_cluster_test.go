package decisions

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// TestGrantsOnACluster claims units of keys in many slots, with each adapter. When a slot moves,
// its grants move with it: a repeated claim gets the same answer from the new owner, and what the
// process holds still counts.
func TestGrantsOnACluster(t *testing.T) {
	t.Parallel()
	cluster := adapters.StartProxied(t)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		if a.Name == adapters.Goredis.Name || a.Name == adapters.Rueidis.Name {
			grantsOnACluster(t, cluster, a)
		}
	})
}

func grantsOnACluster(t *testing.T, cluster *adapters.Proxied, a adapters.Adapter) {
	prefix := "grants-" + a.Name
	store := a.Open(t, cluster.Route, redisstore.Options{Prefix: prefix, Cluster: true})
	l := hybrid(t, "l", sluice.FixedWindow{Rate: sluice.PerDay(100)}, sluice.Hybrid{Stranded: 1, Life: time.Minute})
	cs := make([]driver.Claim, 100)
	for i := range cs {
		cs[i] = driver.Claim{Limit: l, Key: sluice.StringKey(fmt.Sprint(i)), Seq: 1, Want: 10, Take: 1}
	}
	claim := func(cs []driver.Claim) []driver.Grant {
		out := make([]driver.Grant, len(cs))
		store.Grant(redistest.Within(t, redistest.Soon), 7, cs, out)
		return out
	}
	first := claim(cs)
	for i, g := range first {
		if g.Err != nil || g.Units != 10 || !g.Decision.Allowed {
			t.Fatalf("key %d: %+v", i, g)
		}
	}
	slot, _, to := cluster.OwnerOf(t, "{3}")
	if err := cluster.MigrateSlot(redistest.Within(t, redistest.Soon), slot, to); err != nil {
		t.Fatal(err)
	}
	for i, g := range claim(cs) {
		if g.Err != nil || g.Units != 10 || g.Held != 10 || g.Birth != 1 || g.Free != 89 || !g.Decision.Allowed {
			t.Errorf("key %d, repeated: %+v", i, g)
		}
	}
	d, err := store.Decide(redistest.Within(t, redistest.Soon), sluice.Request{Limit: l, Key: cs[3].Key, Cost: 1, Peek: true})
	if err != nil || d.Remaining != 89 {
		t.Errorf("an exact request after the move: %+v, %v", d, err)
	}
}
