package inprocess

import (
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/bench/peers"
)

// hotLimit never denies one key during a run. deniedLimit always denies once it is used up.
var (
	hotLimit    = peers.Limit{Burst: 100_000_000, Every: time.Microsecond, Window: 24 * time.Hour}
	deniedLimit = peers.Limit{Burst: 10, Every: time.Hour, Window: 24 * time.Hour}
)

// A hotCase is one way to send requests of one key.
type hotCase struct {
	metric     string
	goroutines int
	limit      peers.Limit
	admitted   bool
}

// measureHot times decisions on one key: by one goroutine and by two,
// admitted and denied.
func measureHot(b *bench) error {
	for _, c := range []hotCase{
		{"hot-serial", 1, hotLimit, true},
		{"hot-parallel", goroutines, hotLimit, true},
		{"denied-serial", 1, deniedLimit, false},
		{"denied-parallel", goroutines, deniedLimit, false},
	} {
		if err := measureHotCase(b, c); err != nil {
			return err
		}
	}
	return nil
}

func measureHotCase(b *bench, c hotCase) error {
	var open limiters
	defer open.close()
	var contenders []contender
	wrong := map[string]*atomic.Int64{}
	for _, s := range subjects() {
		// floor-table has no clock, so it has nothing to compare with a denial.
		if !b.Wants(c.metric, s.name) || !c.admitted && s.name == floorTable {
			continue
		}
		l, err := open.add(s, c.limit, 1)
		if err != nil {
			return err
		}
		hot := key(0)
		if !c.admitted {
			for range c.limit.Burst {
				l.Take(hot)
			}
		}
		count := new(atomic.Int64)
		wrong[s.name] = count
		take := func(_, ops int) {
			n := 0
			for range ops {
				if l.Take(hot) != c.admitted {
					n++
				}
			}
			count.Add(int64(n))
		}
		contenders = append(contenders, contender{name: s.name, ops: opsFor(b.turn, c.goroutines, take), take: take})
	}
	for name, stat := range b.race(c.goroutines, contenders) {
		b.results.Set(c.metric, name, stat)
	}
	for _, contender := range contenders {
		if err := b.tolerate(c.metric, contender.name, wrong[contender.name].Load()); err != nil {
			return err
		}
	}
	return nil
}
