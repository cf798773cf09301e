package laws

import "github.com/sluicehq/sluice"

// window is a fixed window, aligned or opened by a request.
type window struct {
	count, length int64
	opened        bool
	countDenied   bool
	end           int64 // of the window that is kept
	used          int64
}

func newWindow(w sluice.FixedWindow) oracle {
	return window{
		count: w.Rate.Count(), length: w.Rate.Period().Microseconds(),
		opened: w.Opened, countDenied: w.CountDenied,
	}
}

// ends returns the end of the window that a time is in, or opens.
func (w window) ends(at int64) int64 {
	if w.opened {
		return at + w.length
	}
	return (at/w.length + 1) * w.length
}

func (w window) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := w
	at, reset := a.now, int64(0)
	switch {
	case a.now >= w.end:
		w.end, w.used = w.ends(a.now), 0
	case w.used > 0 || w.opened:
		at = max(a.now, w.end-w.length)
		reset = w.end - a.now
	default: // a window with nothing in it, which the clock may have gone back before
		at = max(a.now, w.end-w.length)
		reset = at - a.now
	}
	remaining := w.count - a.floor - w.used
	c := charge{ask: a, at: at}
	switch {
	case a.cost == 0 && w.used > w.count && !w.countDenied:
		return denied(sluice.ReasonLimited, 0, w.end-a.now, reset), c, kept
	case a.cost == 0:
		return allowed(remaining, 0, reset), c, kept
	case a.cost > w.count-a.floor:
		return never(remaining, reset), c, kept
	case a.cost > remaining && w.countDenied:
		w.used += a.cost
		return denied(sluice.ReasonLimited, remaining-a.cost, w.end-a.now, reset), c, w
	case a.cost > remaining:
		return denied(sluice.ReasonLimited, remaining, w.end-a.now, reset), c, kept
	}
	w.used += a.cost
	return allowed(remaining-a.cost, 0, w.end-a.now), c, w
}

func (w window) cancel(now int64, c charge) oracle {
	if now > c.at {
		return w
	}
	next := w.settle(now, c, 0).(window)
	if next.used == 0 && next.opened && next.end == w.ends(c.at) {
		next.end = 0 // it was never opened
	}
	return next
}

// settle changes what is counted while its window lasts. A charge that cost
// nothing has opened none: it opens its own.
func (w window) settle(now int64, c charge, actual int64) oracle {
	if now >= w.end {
		if end := w.ends(c.at); actual > c.cost && now < end {
			w.end, w.used = end, actual-c.cost
		}
		return w
	}
	if c.at < w.end && c.at >= w.end-w.length {
		w.used = max(0, w.used+actual-c.cost)
	}
	return w
}

func (w window) fresh(now int64) bool {
	return now >= w.end || w.used == 0 && !w.opened && now >= w.end-w.length
}

func (w window) same(o oracle) bool { return w == o }
