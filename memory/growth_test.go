package memory

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
)

// worked returns the number of entries moved or swept since the last call.
func worked(s *Store) int {
	sum := 0
	for i := range s.stripes {
		sum += s.stripes[i].worked
		s.stripes[i].worked = 0
	}
	return sum
}

// TestGrowthIsIncremental fills a store and lets it become empty again. No operation moves or
// sweeps more than maxWork entries, and all keys are found while a table is being moved.
func TestGrowthIsIncremental(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 2})
	l := brief("growth", 5)
	moving := 0
	step := func(i int, remaining int64) {
		t.Helper()
		if d := take(t, s, l, numbered(i), 1); d.Overflow || !d.Allowed || d.Remaining != remaining {
			t.Fatalf("key %d: %+v, want %d to remain", i, d, remaining)
		}
		if n := worked(s); n > maxWork {
			t.Fatalf("one operation moved or swept %d entries; the most is %d", n, maxWork)
		}
		for j := range s.stripes {
			if s.stripes[j].old != nil {
				moving++
			}
		}
	}
	const keys = 25_000
	for i := range keys {
		step(i, 4)
		step(i/2, 3-int64(i%2)) // each earlier key still has its used units
		if i%10_000 == 0 {
			checkInvariants(t, s)
		}
		if i%2 == 1 {
			if err := s.Reset(t.Context(), l, numbered(i/2)); err != nil {
				t.Fatal(err)
			}
			step(i/2, 4)
		}
	}
	if moving < keys/100 {
		t.Errorf("a table was being moved at %d operations of %d: growth was not seen", moving, 2*keys)
	}
	// A second later all states equal fresh ones, and are swept.
	moving = 0
	ops := 0
	for ; s.Stats().Keys > 10; ops++ {
		now += micros(time.Second)
		step(ops%8, 4)
		if ops > 10*keys {
			t.Fatalf("%d keys are left after %d operations", s.Stats().Keys, ops)
		}
	}
	if moving == 0 {
		t.Errorf("the tables did not shrink in %d operations", ops)
	}
}

// TestGrowthKeepsEveryState fills a store with lasting states, through many growths, and finds
// each unchanged.
func TestGrowthKeepsEveryState(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 4})
	l := lasting("growth", 3)
	const keys = 30_000
	for i := range keys {
		take(t, s, l, numbered(i), 1+int64(i%3))
		if j := i / 3; i%5 == 0 {
			if d := take(t, s, l, numbered(j), 3); d.Allowed {
				t.Fatalf("key %d is fresh again, with %d keys: %+v", j, i, d)
			}
		}
		if n := worked(s); n > 2*maxWork {
			t.Fatalf("two operations moved or swept %d entries; the most is %d each", n, maxWork)
		}
	}
	checkInvariants(t, s)
	if st := s.Stats(); st.Keys != keys || st.Overflow != 0 {
		t.Errorf("after %d keys: %+v", keys, st)
	}
	for i := range keys {
		if d := take(t, s, l, numbered(i), 0); d.Remaining != 2-int64(i%3) {
			t.Fatalf("key %d: %+v", i, d)
		}
	}
}

// TestBatchesOfNewKeysFindRoom: keys that come in batches and soon equal new ones are swept as
// fast as they come. Otherwise the far end of a table would fill up while the rest is nearly
// empty.
func TestBatchesOfNewKeysFindRoom(t *testing.T) {
	t.Parallel()
	for _, perBatch := range []int{2, 8, 20, 100} {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 8})
		out := make([]sluice.Decision, perBatch)
		for i := range soak.Times(t, 30_000) / perBatch {
			now += 500
			rs := make([]sluice.Request, perBatch)
			for j := range rs {
				l := sluice.MustLimit("limit-"+strconv.Itoa(i/4)+"-"+strconv.Itoa(j), sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000)})
				rs[j] = sluice.Request{Limit: l, Key: numbered(i), Cost: 1}
			}
			if err := s.DecideAll(context.Background(), rs, out); err != nil {
				t.Fatal(err)
			}
			for j, d := range out {
				if !d.Allowed || d.Overflow {
					t.Fatalf("batch %d of %d, request %d: %+v, %+v", i, perBatch, j, d, s.Stats())
				}
			}
		}
		checkInvariants(t, s)
	}
}

// TestTablesGrowConcurrently: while goroutines compete for the units of old keys, new keys make the
// table grow, and others become fresh and make it shrink. Each key gets its units, no more and no less.
func TestTablesGrowConcurrently(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Stripes: 1})
	if err != nil {
		t.Fatal(err)
	}
	const keys, units, goroutines = 300, 20, 4
	kept, passing := lasting("kept", units), brief("passing", 1_000_000)
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 4))
			for i := range keys * units {
				k := r.IntN(keys)
				d, err := s.Take(t.Context(), kept, numbered(k), 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted[k].Add(1)
				}
				if _, err := s.Take(t.Context(), passing, numbered(keys*units*g+i), 1); err != nil {
					t.Error(err)
					return
				}
				if i%1000 == 0 {
					s.stripes[0].giveUpAll(s.now())
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		for range units {
			if d, err := s.Take(t.Context(), kept, numbered(k), 1); err != nil {
				t.Fatal(err)
			} else if d.Allowed {
				admitted[k].Add(1)
			}
		}
		if n := admitted[k].Load(); n != units {
			t.Errorf("key %d got %d of %d units", k, n, units)
		}
	}
	checkInvariants(t, s)
}
