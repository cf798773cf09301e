package inprocess

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
)

// A contender is a subject in a race. take runs one goroutine's share of a turn.
type contender struct {
	name string
	ops  int // decisions per goroutine and turn
	take func(goroutine, ops int)
	// ready prepares each turn, if it is not nil. It is not timed.
	ready func()
}

// race gives every contender its turn in each round, so that a disturbance of the machine affects all of
// them. It returns the nanoseconds that a goroutine spends on one decision. Each round begins with another
// contender. A first round warms up and does not count.
//
// Garbage is collected between rounds and never inside a turn, which favours contenders that make
// garbage.
func (b *bench) race(goroutines int, contenders []contender) map[string]figures.Stat {
	if len(contenders) == 0 {
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	times := map[string][]float64{}
	for round := range b.rounds + 1 {
		runtime.GC()
		b.quiet = append(b.quiet, figures.Quiet())
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			if c.ready != nil {
				c.ready()
			}
			took := figures.Turn(goroutines, func(g int) { c.take(g, c.ops) })
			if round > 0 {
				times[c.name] = append(times[c.name], float64(took.Nanoseconds())/float64(c.ops))
			}
		}
	}
	stats := map[string]figures.Stat{}
	for name, values := range times {
		stats[name] = figures.Summarize(values)
	}
	return stats
}

// opsFor returns how many operations of each goroutine fill a turn of the
// given length.
func opsFor(length time.Duration, goroutines int, work func(goroutine, ops int)) int {
	const trial = 20_000
	took := figures.Turn(goroutines, func(g int) { work(g, trial) })
	return max(trial, int(trial*length/max(took, 1)))
}

// measureClock times the clock itself, the largest single piece of a floor.
func measureClock(b *bench) error {
	if !b.Wants("clock", "clock") {
		return nil
	}
	const ops = 1_000_000
	anchor := time.Now()
	var sum int64
	for name, stat := range b.race(1, []contender{
		{name: "time.Since", ops: ops, take: func(_, ops int) {
			for range ops {
				sum += int64(time.Since(anchor))
			}
		}},
		{name: "time.Now", ops: ops, take: func(_, ops int) {
			for range ops {
				sum += time.Now().UnixNano()
			}
		}},
	}) {
		b.results.Set("clock", name, stat)
	}
	return nil
}
