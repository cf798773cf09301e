package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

func newStore(tb testing.TB, o memory.Options) *memory.Store {
	tb.Helper()
	s, err := memory.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// The algorithms, with numbers that allow all requests of a benchmark.
var generous = []sluice.Algorithm{
	sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000), Burst: 1_000_000},
	sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000), Burst: 1_000_000, WarmUp: 1e9},
	sluice.LeakyBucket{Rate: sluice.PerSecond(1_000_000), Queue: 1_000_000},
	sluice.FixedWindow{Rate: sluice.PerSecond(1_000_000_000)},
	sluice.SlidingWindow{Rate: sluice.PerSecond(1_000_000_000)},
	sluice.SlidingCounter{Rate: sluice.PerSecond(1_000_000_000)},
}

func BenchmarkHotKey(b *testing.B) {
	for _, a := range generous {
		b.Run(a.String(), func(b *testing.B) {
			s := newStore(b, memory.Options{})
			limit := sluice.MustLimit("hot", a)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Decide(ctx, sluice.Request{Limit: limit, Key: sluice.StringKey("192.0.2.1"), Cost: 1})
			}
		})
	}
}

func BenchmarkHotKeyParallel(b *testing.B) {
	s := newStore(b, memory.Options{})
	limit := sluice.MustLimit("hot", generous[0])
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			_, _ = s.Decide(ctx, sluice.Request{Limit: limit, Key: sluice.StringKey("192.0.2.1"), Cost: 1})
		}
	})
}

func BenchmarkDenied(b *testing.B) {
	s := newStore(b, memory.Options{})
	limit := sluice.MustLimit("hot", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1})
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			_, _ = s.Decide(ctx, sluice.Request{Limit: limit, Key: sluice.StringKey("192.0.2.1"), Cost: 1})
		}
	})
}

func BenchmarkUniform(b *testing.B) {
	const keys = 1 << 20
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user-%012d", i)
	}
	s := newStore(b, memory.Options{})
	limit := sluice.MustLimit("many", generous[0])
	slow := sluice.MustLimit("many", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 1_000_000})
	_ = limit
	ctx := context.Background()
	for _, n := range names {
		_, _ = s.Decide(ctx, sluice.Request{Limit: slow, Key: sluice.StringKey(n), Cost: 1})
	}
	b.ReportMetric(float64(s.Stats().Bytes)/keys, "B/key")
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(rand.Uint64(), 1))
		for pb.Next() {
			_, _ = s.Decide(ctx, sluice.Request{Limit: slow, Key: sluice.StringKey(names[r.Uint64()%keys]), Cost: 1})
		}
	})
}

// BenchmarkBatch decides batches under three limits, each with a key of its own, as policies do.
func BenchmarkBatch(b *testing.B) {
	s := newStore(b, memory.Options{})
	var rs [3]sluice.Request
	for i := range rs {
		limit := sluice.MustLimit(fmt.Sprint(i), generous[0])
		rs[i] = sluice.Request{Limit: limit, Key: sluice.StringKey("192.0.2.1"), Cost: 1}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		var out [3]sluice.Decision
		for pb.Next() {
			_ = s.DecideAll(ctx, rs[:], out[:])
		}
	})
}

// BenchmarkLargeBatch decides batches of requests for different keys. With a peek among them, a batch locks
// all its stripes.
func BenchmarkLargeBatch(b *testing.B) {
	s := newStore(b, memory.Options{})
	limit := sluice.MustLimit("large", generous[0])
	for _, size := range []int{4, 16, 17, 100, 1000} {
		rs, out := make([]sluice.Request, size), make([]sluice.Decision, size)
		for i := range rs {
			rs[i] = sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprintf("192.0.2.%d", i)), Cost: 1}
		}
		for _, name := range []string{"plain", "peek"} {
			rs[size/2].Peek = name == "peek"
			b.Run(fmt.Sprintf("%d/%s", size, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_ = s.DecideAll(context.Background(), rs, out)
				}
			})
		}
	}
}
