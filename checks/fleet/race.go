package fleet

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"
	"sync"
	"syscall"
	"time"
)

// race lets callers decide as fast as they can. The end of one call is the beginning of the next, so that
// each call reads the clock once.
func (w *worker) race(r Race) Stats {
	draw := popularity(len(w.Loads), r.Zipf)
	var all sync.WaitGroup
	results := make([]Stats, r.Callers)
	took := make([]Latencies, r.Callers)
	start := time.Now()
	for c := range r.Callers {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(w.Seed, uint64(c)))
			keys := make([]int, 4096)
			for i := range keys {
				keys[i] = draw(chance)
			}
			w.call(keys, start.Add(r.WarmUp), nil, &Stats{})
			w.call(keys, start.Add(r.WarmUp+r.Length), &took[c], &results[c])
		})
	}
	all.Wait()
	var s Stats
	var merged Latencies
	for i := range results {
		s.Decided += results[i].Decided
		s.Allowed += results[i].Allowed
		s.Errors += results[i].Errors
		if s.FirstError == "" {
			s.FirstError = results[i].FirstError
		}
		merged.Merge(&took[i])
	}
	s.Took = r.Length
	s.Latencies = merged.Counts()
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err == nil {
		s.Processor = time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
	}
	w.subject.Stats(&s)
	return s
}

// call decides requests until the end. The keys are taken in turn.
func (w *worker) call(keys []int, end time.Time, took *Latencies, s *Stats) {
	ctx := context.Background()
	now := time.Now()
	for i := 0; now.Before(end); i = (i + 1) % len(keys) {
		allowed, err := w.subject.Take(ctx, keys[i])
		then := time.Now()
		if took != nil {
			took.Add(then.Sub(now))
		}
		now = then
		switch {
		case err != nil:
			if s.Errors++; s.FirstError == "" {
				s.FirstError = err.Error()
			}
			continue
		case allowed:
			s.Allowed++
		}
		s.Decided++
	}
}

// popularity returns a draw of one of n keys, whose popularity falls with the given exponent.
func popularity(n int, exponent float64) func(*rand.Rand) int {
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -exponent)
		sums[i] = sum
	}
	return func(r *rand.Rand) int {
		return min(sort.SearchFloat64s(sums, r.Float64()*sum), n-1)
	}
}
