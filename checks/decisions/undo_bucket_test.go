package decisions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/redisstore"
)

// turns is a client whose calls wait for each other.
type turns struct {
	redisstore.Client
	mu sync.Mutex
}

func (c *turns) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Client.EvalSHA(ctx, sha, keys, args)
}

func (c *turns) Eval(ctx context.Context, source string, keys, args []string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Client.Eval(ctx, source, keys, args)
}

// TestUndoneBuckets: when a batch over several slots of a cluster is denied in one of
// them, a bucket in another one is left as package algo leaves it.
func TestUndoneBuckets(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	undone := 0
	for seed := range uint64(60) {
		d := &duel{T: t, a: a, rnd: rand.New(rand.NewPCG(seed, 1)), now: 1_800_000_000_000_000}
		var l *sluice.Limit
		for err := sluice.ErrClosed; err != nil; {
			l, err = sluice.NewLimit("undone", tokenBucket(d))
		}
		// The two slots decide at d.now, and what was charged is undone later.
		var calls atomic.Int64
		later, between := int64(0), func() {}
		clock := func() int64 {
			switch n := calls.Add(1); {
			case n == 3:
				between()
				fallthrough
			case n > 3:
				return d.now + later
			}
			return d.now
		}
		o := redisstore.Options{Prefix: fmt.Sprintf("undone-%d", seed), Cluster: true}
		store, err := redisstore.New(redistest.WithClock(&turns{Client: plainClient{a.conn}}, clock), o)
		if err != nil {
			t.Fatal(err)
		}
		another, err := redisstore.New(redistest.WithClock(plainClient{a.conn}, func() int64 { return d.now + later }), o)
		if err != nil {
			t.Fatal(err)
		}
		unit, all := pace(l)
		unit, all = min(unit, 1<<44), min(all, 1<<44) // the time is below 2^53
		bucket, state := &l.Params().Bucket, algo.State{}
		for range 30 {
			r := sluice.Request{Limit: l, Key: sluice.StringKey("a"), Cost: d.one(1, 2, l.Capacity(), d.upTo(l.Capacity()))}
			if d.rnd.IntN(2) == 0 {
				r.MaxWait = 1 << 40
			}
			ask := algo.Request{Now: d.now, Cost: r.Cost, MaxWait: r.MaxWait.Microseconds()}
			before := bucket.Missing(state, d.now)
			next, ans := bucket.Decide(state, ask)
			calls.Store(0)
			if d.rnd.IntN(2) == 0 {
				got, err := store.Decide(t.Context(), r)
				if err != nil || got.Allowed != ans.Allowed {
					t.Fatalf("%v: %+v, %v; want %+v", l, got, err, ans)
				}
				state = next
			} else {
				later = d.one(0, 1, unit, d.rnd.Int64N(all), d.rnd.Int64N(3*all))
				other := sluice.Request{Limit: l, Key: sluice.StringKey("b"), Cost: l.Capacity() + 1}
				// In half of the batches, another request charges the bucket before the undoing does.
				between = func() {}
				if d.rnd.IntN(2) == 0 {
					r := sluice.Request{Limit: l, Key: r.Key, Cost: d.one(1, d.upTo(l.Capacity())), MaxWait: 1 << 40}
					between = func() {
						charged, ans := bucket.Decide(next, algo.Request{Now: d.now + later, Cost: r.Cost, MaxWait: r.MaxWait.Microseconds()})
						got, err := another.Decide(t.Context(), r)
						if next = charged; err != nil || got.Allowed != ans.Allowed {
							t.Errorf("%v: %+v between, %v; want %+v", l, got, err, ans)
						}
					}
				}
				out := make([]sluice.Decision, 2)
				if err := store.DecideAll(t.Context(), []sluice.Request{r, other}, out); err != nil || out[1].Allowed {
					t.Fatalf("%v: the full slot should deny the batch: %+v, %v", l, out, err)
				}
				if state = next; ans.Allowed {
					undone++
					d.now += later
					state = bucket.Undo(next, d.now, algo.Charge{Cost: r.Cost, At: ans.At, Over: before})
				}
			}
			if bucket.Fresh(state, d.now) {
				state = algo.State{} // and forgotten
			}
			calls.Store(0)
			look := sluice.Request{Limit: l, Key: r.Key, Peek: true}
			got, err := store.Decide(t.Context(), look)
			_, want := bucket.Decide(state, algo.Request{Now: d.now})
			if err != nil || got.Remaining != want.Remaining || got.ResetAfter != micros(want.ResetAfter) || got.RetryAfter != micros(want.RetryAfter) {
				t.Fatalf("seed %d: %v after %v: %+v, %v; want %+v", seed, l, r, got, err, want)
			}
			d.now += d.one(0, 0, 1, unit, d.rnd.Int64N(all))
		}
	}
	if undone < 100 {
		t.Errorf("only %d charges were undone", undone)
	}
}

// micros is a time of package algo, as far as a time.Duration holds it.
func micros(n int64) time.Duration {
	return time.Duration(min(n, (1<<63-1)/1000)) * time.Microsecond
}
