package inprocess

import (
	"fmt"
	"runtime"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
)

// measureAllocs counts what a decision on a known key allocates, for every
// subject and for each of our algorithms.
func measureAllocs(b *bench) error {
	for _, s := range append(subjects(), sluiceAlgorithms()...) {
		if !b.Wants("allocs", s.name) {
			continue
		}
		if err := measureAllocsOf(b, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func measureAllocsOf(b *bench, s subject) error {
	const keys, rounds = 1000, 100
	l, err := s.open(peers.Limit{Burst: hotLimit.Burst, Every: liveLimit.Every / 100, Window: liveLimit.Window}, keys)
	if err != nil {
		return err
	}
	defer l.Close()
	i := 0
	known := newStream(keys, func() int { i++; return i })
	known.take(l)

	before := mallocs()
	for range rounds {
		known.take(l)
	}
	each := float64(mallocs()-before) / (keys * rounds)
	if each < 0.001 { // the runtime itself allocates now and then
		each = 0
	}
	b.results.Set("allocs", s.name, figures.Once(each))
	return nil
}

// mallocs returns how many objects have been allocated so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
