package inprocess

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/peers"
)

// floodLimit admits a key once an hour, so that no key of a flood is as good
// as new before its end.
var floodLimit = peers.Limit{Burst: 1, Every: time.Hour, Window: 24 * time.Hour}

// floodSamples is how often the memory is looked at, and the denied key asks.
const floodSamples = 50

// bounded is a limiter that promises to stay within a bound.
type bounded struct {
	name string
	open func(l peers.Limit, bytes int) (peers.Limiter, error)
}

// boundedStores returns ours and, for comparison, one that forgets the least
// recently used key.
func boundedStores() []bounded {
	return append(sluiceBounded(), bounded{"throttled, LRU", func(l peers.Limit, bytes int) (peers.Limiter, error) {
		const perKey = 260 // roughly what one takes, list and all
		return peers.NewThrottledLRU(l, bytes/perKey)
	}})
}

// measureFlood throws many keys at bounded stores: does the memory stay within
// the bound, and do keys that were denied before stay denied, the one that keeps
// asking and the one that asks only at the end?
func measureFlood(b *bench) error {
	for _, s := range boundedStores() {
		if !b.wants("flood", s.name) {
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
	const persistent, patient = "asks again and again", "asks again at the end"
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
