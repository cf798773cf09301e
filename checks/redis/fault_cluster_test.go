package redis

import (
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestSlotsMigrateUnderLoad moves the slots of keys from master to master, key by key,
// while the keys are asked for: each admits exactly what it may. The only errors are
// TRYAGAIN, for calls with two keys of a slot of which one has moved, and behind a guard
// there are none.
func TestSlotsMigrateUnderLoad(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	eachAdapter(t, func(t *testing.T, a adapter) {
		const units, keys = 250, 9
		c := newCrowd(t, keys, units)
		store := a.open(t, adapterRoute{cluster: true, addrs: cluster.Addrs()}, redisstore.Options{Prefix: a.name})
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { c.run(stop, 1500, store, guarded(t, store)) })
		migrations := 0
		for until := time.Now().Add(1500 * time.Millisecond); migrations < keys || time.Now().Before(until); migrations++ {
			migrate(t, cluster, slotKey(c.keys[migrations%keys]))
		}
		close(stop)
		running.Wait()
		errors := c.told()
		degraded := int64(0)
		c.drain(store)
		for i := range c.counts {
			n := &c.counts[i]
			degraded += n.degraded.Load()
			if got := n.admitted.Load(); got > units || got+n.unknown.Load() < units {
				t.Errorf("key %d admitted %d, and %d outcomes are unknown; want %d", i, got, n.unknown.Load(), units)
			}
		}
		for text := range errors {
			if text != "TRYAGAIN" {
				t.Errorf("a call failed: %s", text)
			}
		}
		checkClusterTTL(t, cluster)
		t.Logf("%d slots moved; errors of calls without a guard: %v; %d answers by the ladder with one", migrations, errors, degraded)
	})
}

// migrate moves the slot of a key to the next master, key by key.
func migrate(t *testing.T, cluster *redistest.Cluster, key string) {
	t.Helper()
	ctx := within(t, soon)
	slot, err := cluster.Slot(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := cluster.Owner(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	to := cluster.Nodes[0]
	for i, s := range cluster.Nodes {
		if s == owner {
			to = cluster.Nodes[(i+1)%len(cluster.Nodes)]
		}
	}
	m, err := cluster.BeginMigration(ctx, slot, to)
	if err != nil {
		t.Fatal(err)
	}
	pass(20 * time.Millisecond) // nothing has moved yet
	for {
		moved, err := m.Move(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if moved == 0 {
			break
		}
		pass(20 * time.Millisecond) // some of it has
	}
	if err := m.End(ctx); err != nil {
		t.Fatal(err)
	}
}
