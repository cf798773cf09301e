package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// A crowd requests the units of some keys, in single calls, in batches of one key, and in batches
// of two, and counts what it was granted.
type crowd struct {
	*testing.T
	limit  *sluice.Limit // of few units, of which nothing comes back meanwhile
	roomy  *sluice.Limit
	keys   []sluice.Key
	counts []crowdCount // for each key

	mu     sync.Mutex
	errors map[string]int // the errors of callers, in short
	answer []time.Time    // for each key, the last time that the store answered
	late   time.Duration  // the most by which the scheduler was late for run

	begun atomic.Int64 // calls of run
}

// crowdCount is what became of a key. Units of calls whose outcome is unknown may be taken.
type crowdCount struct{ admitted, unknown, degraded atomic.Int64 }

func newCrowd(t *testing.T, keys int, units int64) *crowd {
	t.Helper()
	c := &crowd{
		T:      t,
		limit:  sluice.MustLimit("crowd", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: units}),
		roomy:  sluice.MustLimit("crowd roomy", sluice.SlidingLog{Rate: sluice.PerDay(50_000)}),
		counts: make([]crowdCount, keys),
		answer: make([]time.Time, keys),
		errors: make(map[string]int),
	}
	for i := range keys {
		c.keys = append(c.keys, sluice.StringKey(fmt.Sprint("crowd ", i)))
	}
	return c
}

// slotKey is what the slot of a key is found by.
func slotKey(k sluice.Key) string { return "{" + k.Text() + "}" }

// call makes the n-th call.
func (c *crowd) call(ctx context.Context, s sluice.Store, n int) {
	i := n % len(c.keys)
	j := (i + 1 + n/len(c.keys)%(len(c.keys)-1)) % len(c.keys) // another
	r := sluice.Request{Limit: c.limit, Key: c.keys[i], Cost: 1}
	used, out := []int{i}, make([]sluice.Decision, 2)
	var err error
	switch n / len(c.keys) % 4 {
	case 0, 1:
		out[0], err = s.Decide(ctx, r)
		out = out[:1]
	case 2:
		err = s.DecideAll(ctx, []sluice.Request{r, {Limit: c.roomy, Key: r.Key, Cost: 1}}, out)
	case 3:
		used = append(used, j)
		err = s.DecideAll(ctx, []sluice.Request{r, {Limit: c.limit, Key: c.keys[j], Cost: 1}}, out)
	}
	c.note(used, out, err)
}

// note counts what came of a call for a unit of some keys.
func (c *crowd) note(used []int, out []sluice.Decision, err error) {
	if err != nil {
		c.noteError(used, err)
		return
	}
	allowed, degraded := true, false
	for i := range out {
		allowed = allowed && out[i].Allowed
		degraded = degraded || out[i].Degraded
	}
	for _, i := range used {
		switch {
		case degraded && allowed:
			c.Error("what is to be denied without the store was allowed")
		case degraded:
			c.counts[i].degraded.Add(1)
			c.counts[i].unknown.Add(1) // the reply may have been lost
		case allowed:
			c.counts[i].admitted.Add(1)
		}
	}
	if !degraded {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, i := range used {
			c.answer[i] = time.Now()
		}
	}
}

func (c *crowd) noteError(used []int, err error) {
	var reply *redisstore.ServerError
	text := err.Error()
	if errors.As(err, &reply) {
		text, _, _ = strings.Cut(reply.Text, " ")
	}
	for _, i := range used {
		c.counts[i].unknown.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors[text]++
}

// failed returns the errors of callers, and forgets them.
func (c *crowd) failed() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.errors
	c.errors = make(map[string]int)
	return all
}

// crowdInFlight is how many calls run has in flight at most: on a busy machine, a queue that only grows would make all late.
const crowdInFlight = 500

// run calls at a rate, with calls that do not wait for each other, until stop is closed
// and all have returned.
func (c *crowd) run(stop <-chan struct{}, rate float64, stores ...sluice.Store) {
	var calls sync.WaitGroup
	defer calls.Wait()
	var inFlight atomic.Int64
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	asked, last := 0, began
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		c.mu.Lock()
		c.late = max(c.late, time.Since(last))
		last = time.Now()
		c.mu.Unlock()
		for due := int(time.Since(began).Seconds() * rate); asked < due && inFlight.Load() < crowdInFlight; asked++ {
			n := asked
			c.begun.Add(1)
			inFlight.Add(1)
			calls.Go(func() {
				defer inFlight.Add(-1)
				ctx, cancel := context.WithTimeout(context.Background(), redistest.Soon)
				defer cancel()
				c.call(ctx, stores[n/len(c.keys)%len(stores)], n)
			})
		}
	}
}

// awaitCalls returns when run has begun so many calls more.
func (c *crowd) awaitCalls(n int64) {
	c.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for due := c.begun.Load() + n; c.begun.Load() < due; {
		select {
		case <-tick.C:
		case <-c.Context().Done():
			c.Fatal("the test has ended")
		}
	}
}

// lateness returns the most by which the scheduler of a busy machine was late so far.
func (c *crowd) lateness() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// drain takes what is left of every key, one unit at a time and until all of it is gone.
func (c *crowd) drain(s sluice.Store) {
	c.Helper()
	for i, k := range c.keys {
		for {
			d, err := s.Decide(redistest.Within(c, redistest.Soon), sluice.Request{Limit: c.limit, Key: k, Cost: 1})
			if err != nil || d.Degraded {
				c.Fatalf("key %d should be decided by the store: %+v, %v", i, d, err)
			}
			if !d.Allowed {
				break
			}
			c.counts[i].admitted.Add(1)
		}
	}
}

// guarded returns a guard over a store, with the fallback deny.
func guarded(t *testing.T, s sluice.Store) *guard.Store {
	t.Helper()
	g, err := guard.New(guard.Options{Store: s, Deadline: loadDeadline, Default: sluice.FallbackDeny})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// await returns when the store has answered for each of some keys since a time.
func (c *crowd) await(since time.Time, of func(i int) bool) time.Duration {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		c.mu.Lock()
		all := true
		for i, at := range c.answer {
			all = all && (!of(i) || at.After(since))
		}
		c.mu.Unlock()
		if all {
			return time.Since(since)
		}
		<-tick.C
	}
	c.Fatal("the store does not answer any more")
	return 0
}

// checkClusterTTL holds every key on the masters of a cluster to have an end.
func checkClusterTTL(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	masters, err := cluster.Masters(redistest.Within(t, redistest.Soon))
	if err != nil {
		t.Fatal(err)
	}
	redistest.CheckTTL(t, masters...)
}
