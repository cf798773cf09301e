package guard_test

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// BenchmarkDecide measures what a guard adds to a store that works. This store takes almost no
// time, so that the rest is the guard's own.
func BenchmarkDecide(b *testing.B) {
	mem, err := memory.New(memory.Options{MaxBytes: 4 << 20})
	if err != nil {
		b.Fatal(err)
	}
	guarded := func(inline bool) sluice.Store {
		s, err := guard.New(guard.Options{Store: mem, Inline: inline, Deadline: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	l := sluice.MustLimit("bench", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000)})
	r := sluice.Request{Limit: l, Key: sluice.StringKey("192.0.2.1"), Cost: 1}
	for _, c := range []struct {
		name  string
		store sluice.Store
	}{{"bare", mem}, {"inline", guarded(true)}, {"alone", guarded(false)}} {
		decide := func(b *testing.B) {
			b.Helper()
			if _, err := c.store.Decide(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide(b)
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					decide(b)
				}
			})
		})
	}
}
