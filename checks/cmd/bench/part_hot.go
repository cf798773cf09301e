package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/checks/peers"
)

// hotLimit never denies one key during a run; deniedLimit always does, once
// it is used up.
var (
	hotLimit    = peers.Limit{Burst: 100_000_000, Every: time.Microsecond, Window: 24 * time.Hour}
	deniedLimit = peers.Limit{Burst: 10, Every: time.Hour, Window: 24 * time.Hour}
)

// measureHot times decisions on one key: by one goroutine and by two,
// admitted and denied.
func measureHot(b *bench) error {
	for _, m := range []struct {
		metric     string
		goroutines int
		limit      peers.Limit
		admitted   bool
	}{
		{"hot-serial", 1, hotLimit, true},
		{"hot-parallel", goroutines, hotLimit, true},
		{"denied-serial", 1, deniedLimit, false},
		{"denied-parallel", goroutines, deniedLimit, false},
	} {
		var contenders []contender
		wrong := map[string]*atomic.Int64{}
		for _, s := range subjects() {
			// floor-table knows no time, and nothing of it is like a denial.
			if !b.wants(m.metric, s.name) || !m.admitted && s.name == floorTable {
				continue
			}
			l, err := s.open(m.limit, 1)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			defer l.Close()
			hot := key(0)
			for range m.limit.Burst {
				if m.admitted {
					break
				}
				l.Take(hot)
			}
			count := new(atomic.Int64)
			wrong[s.name] = count
			take := func(_, ops int) {
				n := 0
				for range ops {
					if l.Take(hot) != m.admitted {
						n++
					}
				}
				count.Add(int64(n))
			}
			contenders = append(contenders, contender{s.name, opsFor(b.turn, m.goroutines, take), take})
		}
		for name, stat := range race(b.rounds, m.goroutines, contenders) {
			b.results.set(m.metric, name, stat)
		}
		for _, c := range contenders {
			if err := b.tolerate(m.metric, c, wrong[c.name].Load()); err != nil {
				return err
			}
		}
	}
	return nil
}
