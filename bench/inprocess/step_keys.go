package inprocess

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/bench/peers"
)

// These limits never deny during a run. Under liveLimit each key stays live: a unit comes back after ten
// minutes, so that no key is fresh again before the end. Under returningLimit a budget is full again
// whenever its key returns. Under mixLimit it is full again only if the key was away for some time.
var (
	liveLimit      = peers.Limit{Burst: 10_000_000, Every: 10 * time.Minute, Window: 24 * time.Hour}
	returningLimit = peers.Limit{Burst: 10_000_000, Every: 100 * time.Nanosecond, Window: time.Millisecond}
	mixLimit       = peers.Limit{Burst: 100_000, Every: 10 * time.Millisecond, Window: 100 * time.Millisecond}
)

// A draw picks the keys of requests for one metric.
type draw struct {
	metric string
	pick   func(n int, seed int64) func() int
}

// liveKeys is our store with live keys, in races of other keys.
const liveKeys = sluiceName + ", live keys"

// measureKeys times decisions over a million live keys, with both draws.
func measureKeys(b *bench) error {
	return measureKeysUnder(b, liveLimit, nil, draw{"zipf", zipfDraw}, draw{"uniform", uniformDraw})
}

// measureReturning times decisions over keys whose budget is full again when they return.
func measureReturning(b *bench) error {
	err := measureKeysUnder(b, returningLimit, liveSubject(),
		draw{"returning-zipf", zipfDraw}, draw{"returning-uniform", uniformDraw})
	if err != nil {
		return err
	}
	return measureKeysUnder(b, mixLimit, liveSubject(), draw{"mix", mixDraw})
}

// liveSubject returns our store with live keys, whatever the limit of the others is.
func liveSubject() []subject {
	s := sluiceSubjects()[0]
	open := s.open
	s.name = liveKeys
	s.open = func(_ peers.Limit, keys int) (peers.Limiter, error) { return open(liveLimit, keys) }
	return []subject{s}
}

// measureKeysUnder times decisions over many keys under a limit. It also measures more subjects.
func measureKeysUnder(b *bench, limit peers.Limit, more []subject, draws ...draw) error {
	var racers []subject
	for _, s := range append(subjects(), more...) {
		for _, d := range draws {
			if s.keyed && b.Wants(d.metric, s.name) {
				racers = append(racers, s)
				break
			}
		}
	}
	var open limiters
	defer open.close()
	filled := map[string]peers.Limiter{}
	for _, s := range racers {
		l, err := open.add(s, limit, b.liveKeys)
		if err != nil {
			return err
		}
		filled[s.name] = l
		wrong := int64(0)
		for i := range b.liveKeys {
			if !l.Take(key(i)) {
				wrong++
			}
		}
		if err := b.tolerate("the first visits of "+draws[0].metric, s.name, wrong); err != nil {
			return err
		}
	}

	for _, d := range draws {
		if len(racers) == 0 {
			break
		}
		var streams [goroutines]stream
		for g := range streams {
			streams[g] = newStream(b.sequence, d.pick(b.liveKeys, int64(g+1)))
		}
		var contenders []contender
		denied := map[string]*atomic.Int64{}
		for _, s := range racers {
			if !b.Wants(d.metric, s.name) {
				continue
			}
			l, wrong := filled[s.name], new(atomic.Int64)
			denied[s.name] = wrong
			contenders = append(contenders, contender{name: s.name, ops: b.sequence, take: func(g, ops int) {
				wrong.Add(int64(ops - streams[g].take(l)))
			}})
		}
		for name, stat := range b.race(goroutines, contenders) {
			b.results.Set(d.metric, name, stat)
		}
		for _, c := range contenders {
			if err := b.tolerate(d.metric, c.name, denied[c.name].Load()); err != nil {
				return err
			}
		}
	}
	return nil
}

// tolerate handles wrong decisions. They are an error of ours and of the floors, and a note about a peer.
func (b *bench) tolerate(metric, name string, wrong int64) error {
	if wrong == 0 {
		return nil
	}
	if !isPeer(name) {
		return fmt.Errorf("%s: %d wrong decisions in %s", name, wrong, metric)
	}
	b.note("%s made %d wrong decisions in %s; an error counts as a denial.", name, wrong, metric)
	return nil
}
