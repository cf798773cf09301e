package hybrid_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/memory"
)

// subjects returns the stores to compare, and the request that each decides again and again. The
// hybrid stores have units in hand.
func subjects(tb testing.TB) (names []string, stores []sluice.Store, r sluice.Request) {
	tb.Helper()
	limit := bucket(1_000_000_000, 1_000_000_000, sluice.Hybrid{Stranded: 1, Sync: 10 * time.Second, Life: time.Minute})
	r = sluice.Request{Limit: limit, Key: key, Cost: 1}
	m, err := memory.New(memory.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	h := open(tb, newBank(tb), hybrid.Options{})
	g, err := guard.New(guard.Options{Store: h})
	if err != nil {
		tb.Fatal(err)
	}
	for range 10_000 {
		if _, err := h.Decide(context.Background(), r); err != nil {
			tb.Fatal(err)
		}
	}
	return []string{"memory", "hybrid", "guard"}, []sluice.Store{m, h, g}, r
}

func BenchmarkDecide(b *testing.B) {
	names, stores, r := subjects(b)
	for i, s := range stores {
		b.Run(names[i], func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Decide(ctx, r)
			}
		})
	}
}

func BenchmarkTake(b *testing.B) {
	names, stores, r := subjects(b)
	for i, s := range stores {
		t, ok := s.(driver.Taker)
		if !ok {
			continue
		}
		b.Run(names[i], func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = t.Take(ctx, r.Limit, r.Key, 1)
			}
		})
	}
}

func BenchmarkDecideParallel(b *testing.B) {
	names, stores, r := subjects(b)
	for i, s := range stores {
		b.Run(names[i], func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					_, _ = s.Decide(ctx, r)
				}
			})
		})
	}
}

// BenchmarkBatch decides batches of one request for each of so many keys.
func BenchmarkBatch(b *testing.B) {
	names, stores, r := subjects(b)
	for _, size := range []int{1, 3, 8, 16, 17, 100, 1000} {
		rs, out := make([]sluice.Request, size), make([]sluice.Decision, size)
		for i := range rs {
			rs[i] = r
			rs[i].Key = sluice.StringKey(fmt.Sprintf("192.0.2.%d", i*7919%size))
		}
		cost := func(n int64) {
			for i := range rs {
				rs[i].Cost = n
			}
		}
		for i, s := range stores {
			b.Run(fmt.Sprintf("%d/%s", size, names[i]), func(b *testing.B) {
				ctx := context.Background()
				cost(10_000)
				for range 100 { // all keys are granted units for long
					_ = s.DecideAll(ctx, rs, out)
				}
				cost(1)
				b.ReportAllocs()
				for b.Loop() {
					_ = s.DecideAll(ctx, rs, out)
				}
			})
		}
	}
}
