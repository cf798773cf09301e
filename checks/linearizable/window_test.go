package linearizable

import "github.com/sluicehq/sluice"

// The numbers of all windows and logs.
const (
	count  = 8
	length = 8 * unit
	cells  = 4
)

// window is a fixed window.
type window struct {
	noLease
	opened bool // by a request
	now    int64
	end    int64 // of the window, if there is one
	used   int64
}

// ends returns the end of the window that a time is in, or opens.
func (w window) ends(at int64) int64 {
	if w.opened {
		return at + length
	}
	return (at/length + 1) * length
}

func (w window) advance(now int64) state {
	w.now = now
	return w.normal()
}

// normal forgets a window that has ended, or that says nothing.
func (w window) normal() window {
	if w.now >= w.end || w.used == 0 && !w.opened {
		w.end, w.used = 0, 0
	}
	return w
}

func (w window) decide(a ask) (sluice.Decision, state) {
	reset := max(0, w.end-w.now)
	remaining := count - a.floor - w.used
	switch {
	case a.cost == 0 && w.used > count:
		return limited(0, reset, reset), w
	case a.cost == 0:
		return allowed(remaining, 0, reset), w
	case a.cost > count-a.floor:
		return never(remaining, reset), w
	case a.cost > remaining:
		return limited(remaining, w.end-w.now, reset), w
	}
	if w.end == 0 {
		w.end = w.ends(w.now)
	}
	w.used += a.cost
	return allowed(remaining-a.cost, 0, w.end-w.now), w
}

func (w window) cancel(c charge) state {
	if w.now > c.at {
		return w
	}
	next := w.settle(c, 0).(window)
	if next.opened && next.used == 0 && next.end == w.ends(c.at) {
		next.end = 0 // it was never opened
	}
	return next
}

func (w window) settle(c charge, actual int64) state {
	more := actual - c.cost
	if w.end == 0 && more > 0 {
		w.end = w.ends(c.at)
	}
	if c.at >= w.end || c.at < w.end-length {
		return w.normal()
	}
	w.used = max(0, w.used+more)
	return w.normal()
}
