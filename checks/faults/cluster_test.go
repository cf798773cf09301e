package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// TestSlotsMigrateUnderLoad moves the slots of keys from master to master, key by key,
// while requests use the keys: each admits exactly what it may. The only errors are
// TRYAGAIN, for calls with two keys of a slot of which one has moved, and behind a guard
// there are none.
func TestSlotsMigrateUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for _, node := range cluster.Nodes { // on a busy machine, a node must not find that another one has failed
		if _, err := node.Do(redistest.Within(t, redistest.Soon), "CONFIG", "SET", "cluster-node-timeout", "60000"); err != nil {
			t.Fatal(err)
		}
	}
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		const units, keys = 250, 9
		c := newCrowd(t, keys, units)
		store := a.Open(t, adapters.ToCluster(cluster), redisstore.Options{Prefix: a.Name})
		stop := make(chan struct{})
		var running sync.WaitGroup
		// Nobody gives up: on a busy machine, a caller who does ends the connection of all (see rueidisstore).
		patient, err := guard.New(guard.Options{Store: store, Deadline: redistest.Soon, Default: sluice.FallbackDeny})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { c.run(stop, 1500, store, patient) })
		migrations := 0
		for until := time.Now().Add(1500 * time.Millisecond); migrations < keys || time.Now().Before(until); migrations++ {
			c.migrate(cluster, slotKey(c.keys[migrations%keys]))
		}
		close(stop)
		running.Wait()
		errors := c.failed()
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

// migrate moves the slot of a key to the next master, key by key. Between two steps of it,
// the crowd makes some calls.
func (c *crowd) migrate(cluster *redistest.Cluster, key string) {
	c.Helper()
	const calls = 30
	ctx := redistest.Within(c, redistest.Soon)
	slot, err := cluster.Slot(ctx, key)
	if err != nil {
		c.Fatal(err)
	}
	owner, err := cluster.Owner(ctx, slot)
	if err != nil {
		c.Fatal(err)
	}
	to := cluster.Nodes[0]
	for i, s := range cluster.Nodes {
		if s == owner {
			to = cluster.Nodes[(i+1)%len(cluster.Nodes)]
		}
	}
	m, err := cluster.BeginMigration(ctx, slot, to)
	if err != nil {
		c.Fatal(err)
	}
	c.awaitCalls(calls) // nothing has moved yet
	for {
		moved, err := m.Move(ctx, 1)
		if err != nil {
			c.Fatal(err)
		}
		if moved == 0 {
			break
		}
		c.awaitCalls(calls) // some of it has
	}
	if err := m.End(ctx); err != nil {
		c.Fatal(err)
	}
}
