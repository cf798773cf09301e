package algo_test

import (
	"maps"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// counterMost is what a window counts at most.
const counterMost = 1<<40 - 1

// counterOracle remembers what each window was charged.
type counterOracle struct {
	count, length int64
	countDenied   bool

	units   map[int64]int64
	newest  int64
	charges map[int]windowCharge
}

func (o *counterOracle) clone() oracle {
	c := *o
	c.units, c.charges = maps.Clone(o.units), maps.Clone(o.charges)
	return &c
}

// now returns the window as of now, the units of the one before and its own, the
// time to reckon from, and whether the clock was set back.
func (o *counterOracle) now(now int64) (window, prev, cur, at int64, setBack bool) {
	window = now / o.length
	if window < o.newest {
		start := o.newest * o.length
		if start-now > o.length {
			return window, 0, max(o.units[o.newest], o.count), now, true
		}
		window, now = o.newest, start
	}
	return window, o.units[window-1], o.units[window], now, false
}

// used returns what a question at a time sees: the window before, by the part
// that the sliding window covers, rounded up, and the current one.
func (o *counterOracle) used(now int64) int64 {
	window, prev, cur, at, _ := o.now(now)
	covered := rat(o.length-(at-window*o.length), o.length)
	return cur + roundUp(covered.Mul(covered, rat(prev, 1))).Int64()
}

func (o *counterOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	used := o.used(a.Now)
	_, prev, cur, _, _ := o.now(a.Now)
	switch {
	case a.Cost == 0 && (used <= o.count || max(prev, cur) <= o.count || o.countDenied):
		return true, 0, algo.None
	case a.Cost > 0 && a.Cost > o.count-a.Floor:
		return false, 0, algo.Never
	case a.Cost > 0 && used <= o.count-a.Floor-a.Cost:
		return true, 0, algo.None
	}
	return false, 0, algo.Limited
}

func (o *counterOracle) commit(a algo.Request, allowed bool, id int) {
	window, _, cur, at, setBack := o.now(a.Now)
	if setBack {
		o.units, o.newest = map[int64]int64{window: cur}, window
	}
	if allowed {
		o.charges[id] = windowCharge{a.Cost, at}
	}
	if a.Cost > 0 && (allowed || o.countDenied && !beyond(a, o.count)) {
		o.forget(window)
		o.units[window] = min(o.units[window]+a.Cost, counterMost)
	}
}

// forget makes a window the newest and forgets those that count no more.
func (o *counterOracle) forget(window int64) {
	o.newest = window
	maps.DeleteFunc(o.units, func(i, _ int64) bool { return i < window-1 })
}

func (o *counterOracle) remaining(a algo.Request) int64 {
	if a.Floor > o.count {
		return 0
	}
	return max(0, o.count-a.Floor-o.used(a.Now))
}

func (o *counterOracle) fresh(now int64) bool {
	window, prev, cur, _, _ := o.now(now)
	return window == now/o.length && prev == 0 && cur == 0
}

func (o *counterOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	window, _, _, _, setBack := o.now(now)
	i := c.at / o.length
	if i > window && i*o.length-now <= o.length {
		window = i // a charge of no cost did not move the state
	}
	if setBack || i != window && i != window-1 {
		return
	}
	o.forget(window)
	o.units[i] = max(0, min(o.units[i]+actual-c.cost, counterMost))
}

func (o *counterOracle) cancel(now int64, id int) {
	if now <= o.charges[id].at {
		o.settle(now, id, 0)
	}
}

func slidingCounter(c *chooser) (algo.Params, oracle, questions) {
	count, period := rateNumbers(c)
	if period < algo.MinCounterLength {
		period += algo.MinCounterLength
	}
	denied := c.oneIn(2)
	o := &counterOracle{count: count, length: period, countDenied: denied, units: map[int64]int64{}, charges: map[int]windowCharge{}}
	p := algo.Params{
		Kind: algo.KindSlidingCounter, Capacity: count,
		Counter: algo.SlidingCounter{Count: count, Length: period, CountDenied: denied},
	}
	return p, o, questions{
		pace: pace{max(1, period/count), period}, capacity: count,
		floors: true, waits: true, ends: true, back: 5 * period,
	}
}

func TestSlidingCounterEqualsOracle(t *testing.T) {
	law(t, 300, func(t *testing.T, c *chooser) { agree(t, c, slidingCounter) })
}

func FuzzSlidingCounter(f *testing.F) { fuzz(f, slidingCounter) }
