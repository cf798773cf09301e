package laws

import (
	"maps"
	"slices"

	"github.com/sluicehq/sluice"
)

// cells is a sliding window of n cells, and the one that is leaving.
type cells struct {
	count, length, n int64
	countDenied      bool
	newest           int64
	units            map[int64]int64 // of cells, by number
}

func newCells(w sluice.SlidingWindow) oracle {
	return cells{
		count: w.Rate.Count(), length: w.Rate.Period().Microseconds() / int64(w.Cells), n: int64(w.Cells),
		countDenied: w.CountDenied,
	}
}

// as returns the cells that count at a time.
func (c cells) as(now int64) cells {
	c.newest = max(c.newest, now/c.length)
	old := c.units
	c.units = map[int64]int64{}
	for i, n := range old {
		if n > 0 && i+c.n >= c.newest {
			c.units[i] = n
		}
	}
	return c
}

func (c cells) used() (sum int64) {
	for _, n := range c.units {
		sum += n
	}
	return sum
}

// falls returns when no more than room units count.
func (c cells) falls(room int64) int64 {
	used := c.used()
	for _, i := range slices.Sorted(maps.Keys(c.units)) {
		if used -= c.units[i]; used <= room {
			return (i + c.n + 1) * c.length
		}
	}
	panic("more than no unit is left")
}

func (c cells) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := c
	c = c.as(a.now)
	used, at := c.used(), max(a.now, c.newest*c.length)
	reset := at - a.now
	if used > 0 {
		reset = c.falls(0) - a.now
	}
	remaining := c.count - a.floor - used
	ch := charge{ask: a, at: at}
	switch {
	case a.cost == 0 && used > c.count && !c.countDenied:
		return denied(sluice.ReasonLimited, 0, c.falls(c.count)-a.now, reset), ch, kept
	case a.cost == 0:
		return allowed(remaining, 0, reset), ch, kept
	case a.cost > c.count-a.floor:
		return never(remaining, reset), ch, kept
	case a.cost > remaining && c.countDenied:
		c.units[c.newest] += a.cost
		return denied(sluice.ReasonLimited, remaining-a.cost, c.falls(c.count-a.floor-a.cost)-a.now, c.falls(0)-a.now), ch, c
	case a.cost > remaining:
		return denied(sluice.ReasonLimited, remaining, c.falls(c.count-a.floor-a.cost)-a.now, reset), ch, kept
	}
	c.units[c.newest] += a.cost
	return allowed(remaining-a.cost, 0, c.falls(0)-a.now), ch, c
}

func (c cells) cancel(now int64, ch charge) oracle {
	if now > ch.at {
		return c
	}
	return c.settle(now, ch, 0)
}

func (c cells) settle(now int64, ch charge, actual int64) oracle {
	i := ch.at / c.length
	if i+c.n < max(c.newest, now/c.length) {
		return c
	}
	c = c.as(max(now, i*c.length))
	c.units[i] = max(0, c.units[i]+actual-ch.cost)
	return c
}

func (c cells) fresh(now int64) bool { return now/c.length >= c.newest && c.as(now).used() == 0 }

func (c cells) same(o oracle) bool {
	d := o.(cells)
	return c.newest == d.newest && maps.Equal(c.as(0).units, d.as(0).units)
}
