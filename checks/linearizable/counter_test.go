package linearizable

import "github.com/sluicehq/sluice"

// counter is a sliding counter.
type counter struct {
	noLease
	now       int64
	prev, cur int64
}

func (c counter) advance(now int64) state {
	switch now/length - c.now/length {
	case 0:
	case 1:
		c.prev, c.cur = c.cur, 0
	default:
		c.prev, c.cur = 0, 0
	}
	c.now = now
	return c
}

// used returns the units that count: the earlier window's share is rounded up.
func (c counter) used() int64 {
	return (c.prev*(length-c.now%length)+length-1)/length + c.cur
}

// falls returns the time until no more than room units count.
func (c counter) falls(room int64) int64 {
	low, high := int64(0), int64(2*length)
	for low < high {
		if mid := (low + high) / 2; c.advance(c.now+mid).(counter).used() <= room {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// reset returns the time until the last window that holds units is past.
func (c counter) reset() int64 {
	rest := length - c.now%length
	switch {
	case c.cur > 0:
		return rest + length
	case c.prev > 0:
		return rest
	default:
		return 0
	}
}

func (c counter) decide(a ask) (sluice.Decision, state) {
	used := c.used()
	remaining := count - a.floor - used
	switch {
	case a.cost == 0 && used > count && max(c.prev, c.cur) > count:
		// In debt is who has settled more in one window than it gives.
		return limited(0, c.falls(count), c.reset()), c
	case a.cost == 0:
		return allowed(remaining, 0, c.reset()), c
	case a.cost > count-a.floor:
		return never(remaining, c.reset()), c
	case a.cost > remaining:
		return limited(remaining, c.falls(count-a.floor-a.cost), c.reset()), c
	}
	c.cur += a.cost
	return allowed(remaining-a.cost, 0, c.reset()), c
}

func (c counter) cancel(ch charge) state {
	if c.now > ch.at {
		return c
	}
	return c.settle(ch, 0)
}

func (c counter) settle(ch charge, actual int64) state {
	switch c.now/length - ch.at/length {
	case 0:
		c.cur = max(0, c.cur+actual-ch.cost)
	case 1:
		c.prev = max(0, c.prev+actual-ch.cost)
	}
	return c
}
