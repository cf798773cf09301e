package inprocess

import (
	"fmt"
	"runtime"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// measureHeap fills each keyed subject from n to 2n live keys. It averages the live heap per key after
// collections at evenly spaced points, and times one collection at n keys. Only one subject is open at a
// time.
func measureHeap(b *bench) error {
	for _, s := range subjects() {
		if s.kind == bound || !s.keyed || !b.Wants("heap", s.name) {
			continue
		}
		if err := measureHeapOf(b, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, f := range []struct {
		name string
		size int // bytes of an entry
	}{{floorTable, 16}, {floorDecision, 32}} {
		if b.Wants("heap", f.name) {
			// Of fixed size, and at most half full.
			entries := 1
			for entries < 2*b.heapKeys {
				entries *= 2
			}
			b.results.Set("heap", f.name, figures.Once(float64(entries*f.size)/float64(b.heapKeys)))
		}
	}
	return nil
}

func measureHeapOf(b *bench, s subject) error {
	base := liveHeap()
	l, err := s.open(liveLimit, 2*b.heapKeys)
	if err != nil {
		return err
	}
	defer l.Close()
	filled := 0
	fill := func(to int) error {
		for ; filled < to; filled++ {
			if !l.Take(key(filled)) {
				return fmt.Errorf("denied the first request of key %d", filled)
			}
		}
		return nil
	}

	var perKey []float64
	sum := 0.0
	for i := range b.heapPoints {
		if err := fill(b.heapKeys + b.heapKeys*i/(b.heapPoints-1)); err != nil {
			return err
		}
		if i == 0 {
			b.results.Set("heap-gc", s.name, collections(3))
		}
		each := float64(liveHeap()-base) / float64(filled)
		perKey = append(perKey, each)
		sum += each
	}
	st := figures.Summarize(perKey)
	st.Median = sum / float64(len(perKey)) // the bar is on the average
	b.results.Set("heap", s.name, st)
	return nil
}

// liveHeap collects garbage and returns the live bytes.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collections times n full collections, in milliseconds.
func collections(n int) figures.Stat {
	times := make([]float64, n)
	for i := range times {
		start := time.Now()
		runtime.GC()
		times[i] = float64(time.Since(start).Nanoseconds()) / 1e6
	}
	return figures.Summarize(times)
}
