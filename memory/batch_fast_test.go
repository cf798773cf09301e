package memory

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestFastBatchDecidesAsAnyOther gives two stores the same batches; one of them locks stripes for
// each batch. Their time does not go back, because they forget fresh states at different moments.
func TestFastBatchDecidesAsAnyOther(t *testing.T) {
	limits := []*sluice.Limit{
		sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerSecond(3), Burst: 5}),
		sluice.MustLimit("leaky", sluice.LeakyBucket{Rate: sluice.PerSecond(7), Queue: 4}),
		sluice.MustLimit("window", sluice.FixedWindow{Rate: sluice.Per(9, 2*time.Second)}),
		sluice.MustLimit("opened", sluice.FixedWindow{Rate: sluice.Per(6, time.Second), Opened: true}),
		sluice.MustLimit("counter", sluice.SlidingCounter{Rate: sluice.PerSecond(8)}),
		sluice.MustLimit("tried", sluice.FixedWindow{Rate: sluice.PerSecond(9), CountDenied: true}),
		sluice.MustLimit("often tried", sluice.SlidingCounter{Rate: sluice.PerSecond(20), CountDenied: true}),
		sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerSecond(4), Burst: 9}), // other numbers
		sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerSecond(5)}),               // kept elsewhere
	}
	now := int64(start)
	one, other := open(t, &now, Options{}), open(t, &now, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	quick, large, denied := 0, 0, 0
	for step := range 15_000 {
		now += random.Int64N(40_000)
		rs := make([]sluice.Request, 2+random.IntN(4))
		for i := range rs {
			rs[i] = sluice.Request{Limit: limits[random.IntN(7)], Key: numbered(random.IntN(5)), Cost: 1 + random.Int64N(2)}
			switch random.IntN(100) {
			case 0:
				rs[i].Limit = limits[7+random.IntN(2)]
			case 1:
				rs[i].Cost = 0
			case 2:
				rs[i].Peek = true
			case 3:
				rs[i].Shadow = true
			case 4, 5, 6:
				rs[i].MaxWait = time.Duration(random.IntN(900)) * time.Millisecond
			case 7, 8, 9:
				rs[i].Floor = random.Int64N(3)
			}
		}
		if step%50 == 0 { // a large batch, of different keys
			rs = make([]sluice.Request, 9+random.IntN(maxFastBatch))
			for i, n := range random.Perm(400)[:len(rs)] {
				rs[i] = sluice.Request{Limit: limits[n%7], Key: numbered(10 + n), Cost: 1}
			}
		}
		got, want := make([]sluice.Decision, len(rs)), make([]sluice.Decision, len(rs))
		if one.decideFastBatch(rs, got) {
			quick++
			if len(rs) > fewRequests {
				large++
			}
		} else if err := one.decideBatch(rs, got); err != nil {
			t.Fatal(err)
		}
		if err := other.decideBatch(rs, want); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: %v\ngot  %+v\nwant %+v", step, rs, got, want)
		}
		if slices.ContainsFunc(got, func(d sluice.Decision) bool { return !d.Allowed }) {
			denied++
		}
	}
	if quick < 5_000 || large < 100 || denied < 2_000 || denied > 12_000 {
		t.Errorf("%d batches, %d of them large, were decided by the fast path, and %d denied: too few", quick, large, denied)
	}
}

// TestFastBatchesCompete runs batches with the same keys in any order, beside single requests,
// growth and sweeps.
func TestFastBatchesCompete(t *testing.T) {
	const keys, units, askers, rounds = 20, 2_000, 4, 3_000
	s, err := New(Options{Stripes: 2})
	if err != nil {
		t.Fatal(err)
	}
	limit := lasting("shared", units)
	var charged [keys]atomic.Int64
	var group sync.WaitGroup
	for asker := range askers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(asker)))
			for round := range rounds {
				order := random.Perm(keys)
				n := 2 + random.IntN(5)
				if round%8 == 0 {
					n = keys
				}
				rs, out := make([]sluice.Request, n), make([]sluice.Decision, n)
				for i := range rs {
					rs[i] = sluice.Request{Limit: limit, Key: numbered(order[i]), Cost: 1}
				}
				if err := s.DecideAll(t.Context(), rs, out); err != nil {
					t.Error(err)
					return
				}
				allowed := 0
				for i := range out {
					if out[i].Allowed {
						allowed++
					}
				}
				if allowed == len(out) {
					for i := range rs {
						charged[order[i]].Add(1)
					}
				}
				if d := take(t, s, limit, numbered(order[0]), 1); d.Allowed {
					charged[order[0]].Add(1)
				}
				take(t, s, limit, numbered(keys+asker*rounds+round), 1) // a new key
			}
		})
	}
	group.Wait()
	for i := range charged {
		left := units - charged[i].Load()
		d, err := s.Decide(t.Context(), sluice.Request{Limit: limit, Key: numbered(i), Peek: true})
		if err != nil || d.Remaining != left || left < 0 {
			t.Errorf("of key %d %d units are left, %v; want %d", i, d.Remaining, err, left)
		}
	}
	checkInvariants(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFastBatchWithOneKeyTwice: a batch must not wait for an entry that it has locked.
func TestFastBatchWithOneKeyTwice(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{})
	limit := lasting("twice", 5)
	r := sluice.Request{Limit: limit, Key: numbered(1), Cost: 2}
	out := make([]sluice.Decision, 2)
	for _, want := range []bool{true, false} {
		if err := s.DecideAll(t.Context(), []sluice.Request{r, r}, out); err != nil {
			t.Fatal(err)
		}
		if out[1].Allowed != want {
			t.Errorf("the second of two requests for 2 units is allowed: %v; want %v", out[1].Allowed, want)
		}
	}
	if d := take(t, s, limit, numbered(1), 0); d.Remaining != 1 {
		t.Errorf("%d units are left; want 1", d.Remaining)
	}
}
