package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// rolloutCapacities are the capacities of the old and the new version of a limit.
var rolloutCapacities = [2]int64{7, 11}

// rolloutAlgorithms return nothing for as long as a test lasts.
var rolloutAlgorithms = []struct {
	name  string
	paced bool // one unit at a time, whatever is left
	of    func(n int64) sluice.Algorithm
}{
	{"bucket", false, func(n int64) sluice.Algorithm { return sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: n} }},
	{"warm", true, func(n int64) sluice.Algorithm {
		return sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: n, WarmUp: time.Second}
	}},
	{"leaky", false, func(n int64) sluice.Algorithm {
		return sluice.LeakyBucket{Rate: sluice.PerDay(1), Queue: n - 1, Undelayed: n - 1}
	}},
	{"window", false, func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: sluice.PerDay(n), Opened: true} }},
	{"cells", false, func(n int64) sluice.Algorithm { return sluice.SlidingWindow{Rate: sluice.PerDay(n)} }},
	{"counter", false, func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: sluice.PerDay(n)} }},
	{"log", false, func(n int64) sluice.Algorithm { return sluice.SlidingLog{Rate: sluice.PerDay(n)} }},
	{"leases", false, func(n int64) sluice.Algorithm { return sluice.Concurrency{Max: n, TTL: time.Hour} }},
}

// TestRolloutOfAnotherAlgorithm: while programs of two versions share a server, and the new
// one has another algorithm under the same name, each admits exactly its own limit:
// together no more than the sum. Who rolls back finds all of it used.
func TestRolloutOfAnotherAlgorithm(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var programs [2]*redisstore.Store // each has a client of its own
	for i := range programs {
		s := adapters.Rueidis.Open(t, adapters.ToSocket(server), redisstore.Options{})
		programs[i] = s
	}
	for i, before := range rolloutAlgorithms {
		for j, after := range rolloutAlgorithms {
			if i == j {
				continue
			}
			t.Run(before.name+" to "+after.name, func(t *testing.T) {
				r := &rollout{T: t, key: sluice.StringKey(t.Name())}
				r.limits[0] = sluice.MustLimit("rule", before.of(rolloutCapacities[0]))
				r.limits[1] = sluice.MustLimit("rule", after.of(rolloutCapacities[1]))
				want := rolloutCapacities
				for k, paced := range []bool{before.paced, after.paced} {
					if paced {
						want[k] = 1
					}
				}
				r.inTurn(programs)
				if got := r.admitted(); got != want {
					t.Errorf("in turn %v and %v admit %d, want %d", r.limits[0], r.limits[1], got, want)
				}
				r.counts = [2]atomic.Int64{}
				r.key = sluice.NewKey("at once", t.Name())
				r.atOnce(programs)
				if got := r.admitted(); got != want {
					t.Errorf("at once %v and %v admit %d, want %d", r.limits[0], r.limits[1], got, want)
				}
				r.attempt(programs[1], 0) // rolled back
				if got := r.admitted(); got != want {
					t.Errorf("rolled back to %v, it admits %d, want %d", r.limits[0], got[0], want[0])
				}
			})
		}
	}
}

// rollout counts what is admitted under the old and the new version of a limit.
type rollout struct {
	*testing.T
	limits  [2]*sluice.Limit
	key     sluice.Key
	counts  [2]atomic.Int64
	members atomic.Uint64
}

func (r *rollout) admitted() [2]int64 { return [2]int64{r.counts[0].Load(), r.counts[1].Load()} }

// attempt requests one unit of a program: in a single call, or every third time in a batch with a limit
// that has room for all.
func (r *rollout) attempt(s *redisstore.Store, version int) {
	member := r.members.Add(1)
	q := sluice.Request{Limit: r.limits[version], Key: r.key, Cost: 1, Member: member}
	out := make([]sluice.Decision, 2)
	var err error
	if member%3 == 0 {
		roomy := sluice.MustLimit("roomy", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1_000_000})
		err = s.DecideAll(r.Context(), []sluice.Request{q, {Limit: roomy, Key: r.key, Cost: 1}}, out)
	} else {
		out[0], err = s.Decide(r.Context(), q)
	}
	if err != nil {
		r.Error(fmt.Errorf("%v: %w", q.Limit, err))
	}
	if out[0].Allowed {
		r.counts[version].Add(1)
	}
}

// inTurn calls the programs one after the other, for more than there is.
func (r *rollout) inTurn(programs [2]*redisstore.Store) {
	for range 2 * rolloutCapacities[1] {
		for version, s := range programs {
			r.attempt(s, version)
		}
	}
}

// atOnce calls both programs from several goroutines each.
func (r *rollout) atOnce(programs [2]*redisstore.Store) {
	var all sync.WaitGroup
	for version, s := range programs {
		for range 4 {
			all.Go(func() {
				for range rolloutCapacities[1] {
					r.attempt(s, version)
				}
			})
		}
	}
	all.Wait()
}
