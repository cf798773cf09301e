package inprocess

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/bench/peers"
)

// firstLimit never denies a first request. A budget is full again after 50 ms.
var firstLimit = peers.Limit{Burst: 1000, Every: 50 * time.Millisecond, Window: 50 * time.Millisecond}

// measureFirst times the first visits of keys that were never seen: in an empty limiter, which grows, and
// in one whose earlier keys are fresh again.
func measureFirst(b *bench) error {
	if err := measureFirstOf(b, "first-growing", liveLimit, b.firstKeys, true); err != nil {
		return err
	}
	return measureFirstOf(b, "first-steady", firstLimit, b.firstKeys/4, false)
}

// measureFirstOf times turns of this many new keys. With renew, each turn has a new limiter.
func measureFirstOf(b *bench, metric string, limit peers.Limit, keys int, renew bool) error {
	var contenders []contender
	var open limiters
	defer func() { open.close() }()
	denied := map[string]*atomic.Int64{}
	var failed error
	for _, s := range subjects() {
		// Floors have a fixed size. In the long run only exact peers are of interest.
		if !s.keyed || s.kind == bound || !b.Wants(metric, s.name) || !renew && s.kind == peer && !s.exact {
			continue
		}
		var l peers.Limiter
		next := 0
		var streams [goroutines]stream
		wrong := new(atomic.Int64)
		denied[s.name] = wrong
		contenders = append(contenders, contender{
			name: s.name, ops: keys / goroutines,
			ready: func() {
				for g := range streams {
					streams[g] = newStream(keys/goroutines, func() int { next++; return next })
				}
				if l != nil && !renew {
					return
				}
				if renew { // only one is open at a time
					open.close()
					open, l = nil, nil
					runtime.GC()
				}
				var err error
				if l, err = open.add(s, limit, keys); err != nil {
					failed = err
				}
			},
			take: func(g, ops int) {
				if l != nil {
					wrong.Add(int64(ops - streams[g].take(l)))
				}
			},
		})
	}
	for name, stat := range b.race(goroutines, contenders) {
		b.results.Set(metric, name, stat)
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", metric, failed)
	}
	for _, c := range contenders {
		if err := b.tolerate(metric, c.name, denied[c.name].Load()); err != nil {
			return err
		}
	}
	return nil
}
