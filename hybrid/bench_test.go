package hybrid_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
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
		t, ok := s.(sluice.Taker)
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

func BenchmarkBatch(b *testing.B) {
	names, stores, r := subjects(b)
	for i, s := range stores {
		b.Run(names[i], func(b *testing.B) {
			ctx := context.Background()
			rs, out := []sluice.Request{r, r, r}, make([]sluice.Decision, 3)
			b.ReportAllocs()
			for b.Loop() {
				_ = s.DecideAll(ctx, rs, out)
			}
		})
	}
}
