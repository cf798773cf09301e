package inprocess

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/checks/peers"
)

// liveLimit never denies during a run and keeps each key live: a unit comes back after ten minutes, so
// that no key is fresh again before the end.
var liveLimit = peers.Limit{Burst: 10_000_000, Every: 10 * time.Minute, Window: 24 * time.Hour}

// measureKeys times decisions over a million live keys, with both draws.
func measureKeys(b *bench) error {
	draws := []struct {
		metric string
		draw   func(n int, seed int64) func() int
	}{{"zipf", zipfDraw}, {"uniform", uniformDraw}}

	var racers []subject
	for _, s := range subjects() {
		if s.keyed && (b.wants("zipf", s.name) || b.wants("uniform", s.name)) {
			racers = append(racers, s)
		}
	}
	var open limiters
	defer open.close()
	filled := map[string]peers.Limiter{}
	for _, s := range racers {
		l, err := open.add(s, liveLimit, b.liveKeys)
		if err != nil {
			return err
		}
		filled[s.name] = l
		for i := range b.liveKeys {
			if !l.Take(key(i)) {
				return fmt.Errorf("%s denied the first request of key %d", s.name, i)
			}
		}
	}

	for _, d := range draws {
		if len(racers) == 0 {
			break
		}
		var streams [goroutines]stream
		for g := range streams {
			streams[g] = newStream(b.sequence, d.draw(b.liveKeys, int64(g+1)))
		}
		var contenders []contender
		denied := map[string]*atomic.Int64{}
		for _, s := range racers {
			if !b.wants(d.metric, s.name) {
				continue
			}
			l, wrong := filled[s.name], new(atomic.Int64)
			denied[s.name] = wrong
			contenders = append(contenders, contender{s.name, b.sequence, func(g, ops int) {
				wrong.Add(int64(ops - streams[g].take(l)))
			}})
		}
		for name, stat := range b.race(goroutines, contenders) {
			b.results.Set(d.metric, name, stat)
		}
		for _, c := range contenders {
			if err := b.tolerate(d.metric, c, denied[c.name].Load()); err != nil {
				return err
			}
		}
	}
	return nil
}

// tolerate handles wrong decisions. They are an error of ours and of the floors, and a note about a peer.
func (b *bench) tolerate(metric string, c contender, wrong int64) error {
	if wrong == 0 {
		return nil
	}
	if !isPeer(c.name) {
		return fmt.Errorf("%s: %d wrong decisions in %s", c.name, wrong, metric)
	}
	b.note("%s made %d wrong decisions in %s; an error counts as a denial.", c.name, wrong, metric)
	return nil
}
