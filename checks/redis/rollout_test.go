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
	"github.com/sluicehq/sluice/storetest"
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

// TestRolloutOfOtherNumbers: while programs of two versions share a server, and the new one has other numbers,
// a client that goes to and fro between them gets no more than the larger version admits. It takes
// all that one program has, makes a request to the other one, waits for 110 ms, and begins again.
func TestRolloutOfOtherNumbers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, row := range []struct {
		name     string
		old, new sluice.Algorithm
		most     int64 // in 10.45 s
	}{
		{
			"bucket",
			sluice.TokenBucket{Rate: sluice.PerSecond(100), Burst: 10},
			sluice.TokenBucket{Rate: sluice.PerSecond(100), Burst: 1000},
			2045,
		},
		{
			"leaky",
			sluice.LeakyBucket{Rate: sluice.PerSecond(100), Queue: 9, Undelayed: 9},
			sluice.LeakyBucket{Rate: sluice.PerSecond(100), Queue: 999, Undelayed: 999},
			2045,
		},
		{"window", sluice.FixedWindow{Rate: sluice.PerSecond(10)}, sluice.FixedWindow{Rate: sluice.PerMinute(300)}, 600},
		{"cells", sluice.SlidingWindow{Rate: sluice.PerSecond(10)}, sluice.SlidingWindow{Rate: sluice.PerMinute(300)}, 300},
		{"counter", sluice.SlidingCounter{Rate: sluice.PerSecond(10)}, sluice.SlidingCounter{Rate: sluice.PerMinute(300)}, 599},
		{"log", sluice.SlidingLog{Rate: sluice.PerSecond(10)}, sluice.SlidingLog{Rate: sluice.PerMinute(300)}, 300},
	} {
		for first := range 2 {
			t.Run(fmt.Sprintf("%s/%d", row.name, first), func(t *testing.T) {
				clock := storetest.NewClock()
				var programs [2]*sluice.Limiter // each has a client of its own
				for i, a := range []sluice.Algorithm{row.old, row.new} {
					client := adapters.Rueidis.Dial(t, adapters.ToSocket(server))
					s, err := redisstore.New(redistest.WithClock(client, clock.Now), redisstore.Options{})
					if err != nil {
						t.Fatal(err)
					}
					programs[i] = sluice.NewLimiter(s, sluice.MustLimit(t.Name(), a))
				}
				admitted := int64(0)
				try := func(program, cost int64) bool {
					d, err := programs[program].AllowN(t.Context(), sluice.StringKey("k"), cost)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						admitted += cost
					}
					return d.Allowed
				}
				for range 95 {
					for cost := int64(1000); cost > 0; cost /= 2 {
						for try(int64(first), cost) {
						}
					}
					try(int64(1-first), 1)
					clock.Advance(110 * time.Millisecond)
				}
				if admitted > row.most {
					t.Errorf("%d admitted in 10.45 s; the larger version admits %d", admitted, row.most)
				}
			})
		}
	}
}
