package inprocess

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
)

// floodLimit admits a key once an hour, so that no key of a flood is fresh again before the flood ends.
var floodLimit = peers.Limit{Burst: 1, Every: time.Hour, Window: 24 * time.Hour}

// floodSamples is how often the memory is measured, and the denied key sends a request.
const floodSamples = 50

// A bounded limiter promises to stay within a bound.
type bounded struct {
	name string
	open func(l peers.Limit, bytes int) (peers.Limiter, error)
}

// boundedStores returns ours and, for comparison, a store that forgets the least recently used key.
func boundedStores() []bounded {
	return append(sluiceBounded(), bounded{"throttled, LRU", func(l peers.Limit, bytes int) (peers.Limiter, error) {
		const perKey = 260 // roughly, with its part of the list
		return peers.NewThrottledLRU(l, bytes/perKey)
	}})
}

// measureFlood sends many keys to bounded stores. It measures whether the memory stays within the bound,
// and whether two denied keys stay denied: a persistent key that sends requests all the time, and a
// patient key that sends one at the end.
func measureFlood(b *bench) error {
	for _, s := range boundedStores() {
		if !b.Wants("flood", s.name) {
			continue
		}
		if err := measureFloodOf(b, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func measureFloodOf(b *bench, s bounded) error {
	base := liveHeap()
	l, err := s.open(floodLimit, b.floodBound)
	if err != nil {
		return err
	}
	defer l.Close()
	const persistent, patient = "persistent", "patient"
	for _, denied := range []string{persistent, patient} {
		if !l.Take(denied) || l.Take(denied) {
			return fmt.Errorf("a limit of one admits none or two")
		}
	}
	peak, admitted := int64(0), 0
	for i := range b.floodKeys {
		l.Take(key(i))
		if (i+1)%(b.floodKeys/floodSamples) == 0 {
			peak = max(peak, liveHeap()-base)
			if l.Take(persistent) {
				admitted++
			}
		}
	}
	if l.Take(patient) {
		admitted++
	}
	b.results.Set("flood-bound", s.name, figures.Once(float64(b.floodBound)))
	b.results.Set("flood-peak", s.name, figures.Once(float64(peak)))
	b.results.Set("flood-admitted", s.name, figures.Once(float64(admitted)))
	return nil
}
