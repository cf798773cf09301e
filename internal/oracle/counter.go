package oracle

import "maps"

// mostCounted is the most that a window of a Counter counts.
const mostCounted = 1<<40 - 1

// Counter is a sliding counter. It keeps the units of each window by the number of the window.
type Counter struct {
	count, length int64
	countDenied   bool

	units  map[int64]int64
	newest int64
	last   int64 // the latest charge
}

// NewCounter returns a sliding counter of count units per length.
func NewCounter(count, length int64, countDenied bool) Counter {
	return Counter{count: count, length: length, countDenied: countDenied}
}

// at returns the window of a time, the units of the window before it, and its own units. It also returns
// the time from which to count, and whether the clock was set back.
func (c Counter) at(now int64) (window, prev, cur, at int64, setBack bool) {
	window = now / c.length
	if window < c.newest {
		start := c.newest * c.length
		if start-now > c.length {
			return window, 0, max(c.units[c.newest], c.count), now, true
		}
		window, now = c.newest, start
	}
	return window, c.units[window-1], c.units[window], now, false
}

// used returns the units that count at a time: the units of the current window, plus the covered part of
// the window before it, rounded up.
func (c Counter) used(now int64) int64 {
	window, prev, cur, at, _ := c.at(now)
	covered := Rat(c.length-(at-window*c.length), c.length)
	return cur + Up(mul(covered, whole(prev)))
}

// Allows implements State.
func (c Counter) Allows(r Request) (bool, int64, Reason) {
	used := c.used(r.Now)
	switch {
	case r.Cost == 0 && used <= c.count:
		return true, 0, None
	case r.Cost > 0 && r.beyond(c.count, mostCounted):
		return false, 0, Never
	case r.Cost > 0 && used <= c.count-r.Floor-r.need(c.count, mostCounted):
		return true, 0, None
	}
	return false, 0, Limited
}

// Take implements State.
func (c Counter) Take(r Request, allowed bool) (State, Charge) {
	window, _, cur, at, setBack := c.at(r.Now)
	if setBack {
		c.units, c.newest, c.last = map[int64]int64{window: cur}, window, at
	}
	if r.Cost > 0 && (allowed || r.Debit || c.countDenied && !r.beyond(c.count, mostCounted)) {
		c.last = c.later(window, at)
		c = c.from(window)
		c.units[window] = r.owes(c.units[window], mostCounted)
	}
	return c, Charge{Cost: r.Cost, At: at}
}

// later returns the time of the latest charge, after another one in a window.
func (c Counter) later(window, at int64) int64 {
	if window != c.newest || c.units[window]+c.units[window-1] == 0 {
		return at
	}
	return max(c.last, at)
}

// from returns a copy in which a window is the newest.
func (c Counter) from(window int64) Counter {
	old := c.units
	c.newest, c.units = window, map[int64]int64{}
	for i, n := range old {
		if i >= window-1 {
			c.units[i] = n
		}
	}
	return c
}

// Remaining implements State.
func (c Counter) Remaining(r Request) int64 {
	if r.Floor > c.count {
		return 0
	}
	return max(0, c.count-r.Floor-c.used(r.Now))
}

// Fresh implements State.
func (c Counter) Fresh(now int64) bool {
	window, prev, cur, _, _ := c.at(now)
	return window == now/c.length && prev == 0 && cur == 0
}

// Settle implements State.
func (c Counter) Settle(now int64, ch Charge, actual int64) State {
	window, _, _, _, setBack := c.at(now)
	if ch.At == Newest && !setBack {
		c.last = c.later(window, window*c.length)
		c = c.from(window)
		giveBack(c.units, ch.Cost-min(actual, ch.Cost))
		return c
	}
	i := ch.At / c.length
	if i > window && i*c.length-now <= c.length {
		window = i // a charge of no cost did not move the state
	}
	if setBack || i != window && i != window-1 {
		return c
	}
	c.last = c.later(window, ch.At)
	c = c.from(window)
	c.units[i] = max(0, min(c.units[i]+actual-ch.Cost, mostCounted))
	return c
}

// Cancel implements State.
func (c Counter) Cancel(now int64, ch Charge) State {
	if ch.Cost == 0 || now > ch.At {
		return c
	}
	return c.Settle(now, ch, 0)
}

// Equal implements State.
func (c Counter) Equal(s State) bool {
	o := s.(Counter)
	return c.newest == o.newest && maps.Equal(c.units, o.units)
}
