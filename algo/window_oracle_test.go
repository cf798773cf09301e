package algo_test

import (
	"maps"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// windowOracle keeps one window and what was charged in it.
type windowOracle struct {
	count, length       int64
	opened, countDenied bool

	open       bool
	start, end int64
	used       int64
	charges    map[int]windowCharge
}

type windowCharge struct{ cost, at int64 }

func (o *windowOracle) clone() oracle {
	c := *o
	c.charges = maps.Clone(o.charges)
	return &c
}

// now returns the state as of now, and whether the clock was set back.
func (o *windowOracle) now(now int64) (windowOracle, bool) {
	w := *o
	if o.open && now < o.end && o.start-now <= o.length {
		return w, false
	}
	setBack := o.open && now < o.end
	w.open, w.used = setBack, 0
	w.start = now
	if !o.opened {
		w.start = now / o.length * o.length
	}
	w.end = w.start + o.length
	if setBack {
		w.used = max(o.used, o.count)
	}
	return w, setBack
}

func (o *windowOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	w, _ := o.now(a.Now)
	switch {
	case a.Cost == 0 && (w.used <= o.count || o.countDenied):
		return true, 0, algo.None
	case a.Cost > 0 && a.Cost > o.count-a.Floor:
		return false, 0, algo.Never
	case a.Cost > 0 && w.used <= o.count-a.Floor-a.Cost:
		return true, 0, algo.None
	}
	return false, 0, algo.Limited
}

func (o *windowOracle) commit(a algo.Request, allowed bool, id int) {
	w, setBack := o.now(a.Now)
	if setBack {
		*o = w
	}
	if allowed {
		o.charges[id] = windowCharge{a.Cost, max(a.Now, w.start)}
	}
	if a.Cost > 0 && (allowed || o.countDenied && !beyond(a, o.count)) {
		*o = w
		o.open = true
		o.used += a.Cost
	}
}

// beyond reports whether a question asks for more than a count above its floor: it is
// no attempt that counts.
func beyond(a algo.Request, count int64) bool { return a.Floor > count || a.Cost > count-a.Floor }

func (o *windowOracle) remaining(a algo.Request) int64 {
	if a.Floor > o.count {
		return 0
	}
	w, _ := o.now(a.Now)
	return max(0, o.count-a.Floor-w.used)
}

func (o *windowOracle) fresh(now int64) bool {
	return !o.open || now >= o.end || o.used == 0 && !o.opened && now >= o.start
}

func (o *windowOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	if o.fresh(now) {
		// No window is kept, or one with nothing in it: a charge of no cost did not open its window.
		fresh := &windowOracle{count: o.count, length: o.length, opened: o.opened}
		if w, _ := fresh.now(c.at); actual > c.cost && now < w.end && c.at-now <= o.length {
			o.open, o.start, o.end, o.used = true, w.start, w.end, actual-c.cost
		}
		return
	}
	if c.at < o.start || c.at >= o.end {
		return
	}
	o.used = max(0, o.used+actual-c.cost)
}

func (o *windowOracle) cancel(now int64, id int) {
	c := o.charges[id]
	if now > c.at {
		return
	}
	o.settle(now, id, 0)
	if o.opened && o.used == 0 && o.start == c.at {
		o.open = false // as before it was opened
	}
}

func fixedWindow(c *chooser) (algo.Params, oracle, questions) {
	count, period := rateNumbers(c)
	opened, denied := c.oneIn(2), c.oneIn(2)
	o := &windowOracle{count: count, length: period, opened: opened, countDenied: denied, charges: map[int]windowCharge{}}
	p := algo.Params{
		Kind: algo.KindFixedWindow, Capacity: count,
		Fixed: algo.FixedWindow{Count: count, Length: period, Opened: opened, CountDenied: denied},
	}
	return p, o, questions{
		pace: pace{max(1, period/count), period}, capacity: count,
		floors: true, waits: true, ends: true, back: 5 * period,
	}
}

func TestFixedWindowEqualsOracle(t *testing.T) {
	law(t, 300, func(t *testing.T, c *chooser) { agree(t, c, fixedWindow) })
}

func FuzzFixedWindow(f *testing.F) { fuzz(f, fixedWindow) }
