package memory_test

import (
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// BenchmarkSave saves a million states: all of them, and after each of ten thousand keys was charged.
func BenchmarkSave(b *testing.B) {
	const keys, changed = 1_000_000, 10_000
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(100)})
	names := make([]sluice.Key, keys)
	for i := range names {
		names[i] = sluice.StringKey("user-" + strconv.Itoa(i))
	}
	s := newStore(b, memory.Options{})
	take := func(k sluice.Key) {
		if _, err := s.Take(b.Context(), l, k, 1); err != nil {
			b.Fatal(err)
		}
	}
	for _, k := range names {
		take(k)
	}
	saver := s.NewSaver()
	report := func(b *testing.B, save func(io.Writer) (memory.Saved, error)) {
		b.Helper()
		var last memory.Saved
		var longest time.Duration
		for b.Loop() {
			b.StopTimer()
			for i := range changed {
				take(names[i*(keys/changed)])
			}
			b.StartTimer()
			var err error
			if last, err = save(io.Discard); err != nil {
				b.Fatal(err)
			}
			longest = max(longest, last.LongestLock)
		}
		b.ReportMetric(float64(last.Bytes), "bytes-written")
		b.ReportMetric(float64(longest.Microseconds()), "µs-longest-lock")
	}
	b.Run("all", func(b *testing.B) { report(b, saver.SaveAll) })
	b.Run("changes", func(b *testing.B) { report(b, saver.SaveChanges) })
}

// BenchmarkDecisionsDuringSaves reports how long decisions take while another goroutine saves all the
// time: the median, and the slowest of a thousand and of all.
func BenchmarkDecisionsDuringSaves(b *testing.B) {
	const keys = 200_000
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(100)})
	s := newStore(b, memory.Options{})
	names := make([]sluice.Key, keys)
	for i := range names {
		names[i] = sluice.StringKey("user-" + strconv.Itoa(i))
		_, _ = s.Take(b.Context(), l, names[i], 1)
	}
	for _, saving := range []bool{false, true} {
		b.Run("saving="+strconv.FormatBool(saving), func(b *testing.B) {
			stop := make(chan struct{})
			var running sync.WaitGroup
			if saving {
				running.Go(func() {
					saver := s.NewSaver()
					save := saver.SaveAll
					for {
						select {
						case <-stop:
							return
						default:
						}
						_, _ = save(io.Discard)
						save = saver.SaveChanges
					}
				})
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				_, _ = s.Take(b.Context(), l, names[i*7919%keys], 1)
				took = append(took, time.Since(began))
			}
			close(stop)
			running.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns-median")
			b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds()), "ns-99.9%")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "µs-longest")
		})
	}
}
