package laws

import (
	"math/big"

	"github.com/sluicehq/sluice"
)

// counter is a sliding counter: two windows, by the number of the current one.
type counter struct {
	count, length    int64
	countDenied      bool
	index, prev, cur int64
}

func newCounter(c sluice.SlidingCounter) oracle {
	return counter{count: c.Rate.Count(), length: c.Rate.Period().Microseconds(), countDenied: c.CountDenied}
}

func (c counter) as(now int64) counter {
	switch i := now / c.length; {
	case i == c.index+1:
		c.index, c.prev, c.cur = i, c.cur, 0
	case i > c.index:
		c.index, c.prev, c.cur = i, 0, 0
	}
	return c
}

// used returns the units that count at a time: the earlier window by the part of
// it that the sliding one covers, rounded up.
func (c counter) used(now int64) int64 {
	c = c.as(now)
	into := max(0, now-c.index*c.length)
	return up(mul(rat(c.prev), big.NewRat(c.length-into, c.length))) + c.cur
}

// falls returns how long after a time no more than room units count.
func (c counter) falls(now, room int64) int64 {
	low, high := int64(0), (c.as(now).index+2)*c.length-now
	for low < high {
		if mid := low + (high-low)/2; c.used(now+mid) <= room {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// reset returns when the last window that holds units is past.
func (c counter) reset(now int64) int64 {
	c = c.as(now)
	end := c.index * c.length
	switch {
	case c.cur > 0:
		end += 2 * c.length
	case c.prev > 0:
		end += c.length
	}
	return max(0, end-now)
}

func (c counter) decide(a ask) (sluice.Decision, charge, oracle) {
	used, reset := c.used(a.now), c.reset(a.now)
	next := c.as(a.now)
	remaining := c.count - a.floor - used
	ch := charge{ask: a, at: max(a.now, next.index*c.length)}
	switch {
	case a.cost == 0 && used > c.count && !c.countDenied && max(next.prev, next.cur) > c.count:
		// In debt is who has settled more in one window than it gives.
		return denied(sluice.ReasonLimited, 0, c.falls(a.now, c.count), reset), ch, c
	case a.cost == 0:
		return allowed(remaining, 0, reset), ch, c
	case a.cost > c.count-a.floor:
		return never(remaining, reset), ch, c
	case a.cost > remaining && c.countDenied:
		next.cur = min(next.cur+a.cost, 1<<40-1)
		return denied(sluice.ReasonLimited, remaining-a.cost, next.falls(a.now, c.count-a.floor-a.cost), next.reset(a.now)), ch, next
	case a.cost > remaining:
		return denied(sluice.ReasonLimited, remaining, c.falls(a.now, c.count-a.floor-a.cost), reset), ch, c
	}
	next.cur += a.cost
	return allowed(remaining-a.cost, 0, next.reset(a.now)), ch, next
}

func (c counter) cancel(now int64, ch charge) oracle {
	if now > ch.at {
		return c
	}
	return c.settle(now, ch, 0)
}

func (c counter) settle(now int64, ch charge, actual int64) oracle {
	next := c.as(max(now, ch.at))
	switch ch.at / c.length {
	case next.index:
		next.cur = max(0, min(next.cur+actual-ch.cost, 1<<40-1))
	case next.index - 1:
		next.prev = max(0, min(next.prev+actual-ch.cost, 1<<40-1))
	default:
		return c
	}
	return next
}

func (c counter) fresh(now int64) bool { return c.reset(now) == 0 }

func (c counter) same(o oracle) bool { return c == o }
