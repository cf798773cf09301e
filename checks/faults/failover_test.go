package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

const (
	failoverUnits = 400
	failoverRate  = 1200 // calls a second
	// A client learns from others where a master has gone to, or polls once a second.
	failoverRecovery = 3 * time.Second
)

// A failover test calls a guard while masters change.
type failoverTest struct {
	*crowd
	store   sluice.Store
	guard   *guard.Store // over it
	bound   []int        // limits that each key may be admitted
	stop    chan struct{}
	running sync.WaitGroup
}

func startFailovers(t *testing.T, a adapters.Adapter, r adapters.Route) *failoverTest {
	t.Helper()
	f := &failoverTest{crowd: newCrowd(t, 12, failoverUnits), stop: make(chan struct{})}
	f.store = a.Open(t, r, redisstore.Options{Prefix: a.Name})
	f.guard = guarded(t, f.store)
	f.bound = make([]int, len(f.keys))
	for i := range f.bound {
		f.bound[i] = 1
	}
	f.running.Go(func() { f.run(f.stop, failoverRate, f.guard) })
	f.await(time.Now(), everyKey)
	return f
}

func everyKey(int) bool { return true }

// recovers holds the store to answer for the keys of a master soon after another has
// taken over, and raises their bound by a limit.
func (f *failoverTest) recovers(what string, of func(i int) bool) {
	f.Helper()
	took := f.await(time.Now(), of)
	if late := hops * f.lateness(); took > failoverRecovery+late {
		f.Errorf("%s: the store answered for all keys %v later, want %v and %v for the scheduler", what, took, failoverRecovery, late)
	}
	for i := range f.bound {
		if of(i) {
			f.bound[i]++
		}
	}
	f.Logf("%s: the store answered for all keys %v later", what, took)
}

// finish drains the keys, and holds them to their bounds.
func (f *failoverTest) finish() {
	f.Helper()
	close(f.stop)
	f.running.Wait()
	for text, n := range f.failed() {
		f.Errorf("%d calls failed behind a guard: %s", n, text)
	}
	f.drain(f.store)
	over := 0
	for i := range f.counts {
		got, most := f.counts[i].admitted.Load(), int64(f.bound[i]*failoverUnits)
		if got > most {
			f.Errorf("key %d admitted %d, want up to %d", i, got, most)
		}
		if got > failoverUnits {
			over++
		}
		if n := f.counts[i].unknown.Load(); got+n < failoverUnits {
			f.Errorf("key %d admitted %d, and %d outcomes are unknown; want %d", i, got, n, failoverUnits)
		}
	}
	f.Logf("%d of %d keys admitted more than their limit", over, len(f.keys))
}

// TestClusterFailover lets replicas take over under load: at their master's consent, and
// after its death.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 1)
		f := startFailovers(t, a, adapters.ToCluster(cluster))
		for i, name := range []string{"a planned failover", "a master's death"} {
			ctx := redistest.Within(t, 3*time.Minute) // each step is bounded
			master := f.owner(ctx, cluster, i)
			owned := make([]bool, len(f.keys))
			for j := range owned {
				owned[j] = f.owner(ctx, cluster, j) == master
			}
			var err error
			if i == 0 {
				_, err = cluster.Failover(ctx, master)
			} else {
				err = cluster.KillMaster(ctx, master)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.recovers(name, func(j int) bool { return owned[j] })
		}
		f.finish()
		checkClusterTTL(t, cluster)
	})
}

// owner returns the master of a key.
func (f *failoverTest) owner(ctx context.Context, cluster *redistest.Cluster, i int) *redistest.Server {
	f.Helper()
	slot, err := cluster.Slot(ctx, slotKey(f.keys[i]))
	if err != nil {
		f.Fatal(err)
	}
	owner, err := cluster.Owner(ctx, slot)
	if err != nil {
		f.Fatal(err)
	}
	return owner
}

// TestSentinelFailover does so with sentinels.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		sentinelFailover(t, a)
	})
}

// TestDerivedSentinelFailover does so with a client that goredisstore derives.
func TestDerivedSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinelFailover(t, adapters.Derived)
}

func sentinelFailover(t *testing.T, a adapters.Adapter) {
	t.Helper()
	s := redistest.StartSentinels(t)
	f := startFailovers(t, a, adapters.ToSentinels(s))
	ctx := redistest.Within(t, 3*time.Minute) // each step is bounded
	second, err := s.Failover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.recovers("a planned failover", everyKey)
	if err := s.WaitOK(ctx); err != nil { // the old master is a replica now
		t.Fatal(err)
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitFailover(ctx, second); err != nil {
		t.Fatal(err)
	}
	f.recovers("a master's death", everyKey)
	f.finish()
	master, err := s.Master(ctx)
	if err != nil {
		t.Fatal(err)
	}
	redistest.CheckTTL(t, master)
}
