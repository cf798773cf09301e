package oracle

import "slices"

// Window is a fixed window. It keeps one window and the units charged in it.
type Window struct {
	count, length       int64
	opened, countDenied bool
	periods             *[]int64 // the begins of a calendar's periods; nil without a calendar

	open       bool
	start, end int64
	used       int64
	last       int64 // the latest charge
}

// NewWindow returns a fixed window of count units. With opened it begins with a request, otherwise at a
// multiple of its length.
func NewWindow(count, length int64, opened, countDenied bool) Window {
	return Window{count: count, length: length, opened: opened, countDenied: countDenied}
}

// NewCalendar returns a fixed window of count units per period of a calendar. The longest period has this
// length. The periods are given by their begins, in order; no request is outside of them.
func NewCalendar(count, longest int64, begins ...int64) Window {
	return Window{count: count, length: longest, periods: &begins}
}

// period returns the begin and the end of the window that a request at a time opens, or is in.
func (w Window) period(t int64) (start, end int64) {
	switch {
	case w.opened:
		return t, t + w.length
	case w.periods != nil:
		i, found := slices.BinarySearch(*w.periods, t)
		if !found {
			i--
		}
		if i < 0 { // a charge on credit may have a time by another clock
			return 0, (*w.periods)[0]
		}
		return (*w.periods)[i], (*w.periods)[i+1]
	}
	start = t / w.length * w.length
	return start, start + w.length
}

// at returns the window at a time, and whether the clock was set back.
func (w Window) at(now int64) (_ Window, setBack bool) {
	if w.open && now < w.end && w.start-now <= w.length {
		return w, false
	}
	setBack = w.open && now < w.end
	n := w
	n.open, n.used, n.last = setBack, 0, 0
	n.start, n.end = w.period(now)
	if setBack {
		n.used, n.last = max(w.used, w.count), now
	}
	return n, setBack
}

// Allows implements State.
func (w Window) Allows(r Request) (bool, int64, Reason) {
	w, _ = w.at(r.Now)
	switch {
	case r.Cost == 0 && w.used <= w.count:
		return true, 0, None
	case r.Cost > 0 && r.beyond(w.count, most):
		return false, 0, Never
	case r.Cost > 0 && w.used <= w.count-r.Floor-r.need(w.count, most):
		return true, 0, None
	}
	return false, 0, Limited
}

// Take implements State.
func (w Window) Take(r Request, allowed bool) (State, Charge) {
	now, setBack := w.at(r.Now)
	if setBack {
		w = now
	}
	if r.Cost > 0 && (allowed || r.Debit || w.countDenied && !r.beyond(w.count, most)) {
		w = now
		w.open = true
		w.charged(r.owes(w.used, most)-w.used, w.counts(r.Now))
	}
	return w, Charge{Cost: r.Cost, At: now.counts(r.Now)}
}

// counts returns the time at which a charge counts.
func (w Window) counts(now int64) int64 { return max(now, w.start) }

// charged adds units that count at a time.
func (w *Window) charged(units, at int64) {
	if w.used == 0 {
		w.last = at
	}
	w.used, w.last = w.used+units, max(w.last, at)
}

// Remaining implements State.
func (w Window) Remaining(r Request) int64 {
	if r.Floor > w.count {
		return 0
	}
	w, _ = w.at(r.Now)
	return max(0, w.count-r.Floor-w.used)
}

// Fresh implements State.
func (w Window) Fresh(now int64) bool {
	return !w.open || now >= w.end || w.used == 0 && !w.opened && now >= w.start
}

// Settle implements State.
func (w Window) Settle(now int64, c Charge, actual int64) State {
	if c.At == Newest {
		if !w.Fresh(now) {
			w.used = max(0, w.used+min(0, actual-c.Cost))
		}
		return w
	}
	if w.Fresh(now) {
		// No window is kept, or an empty one. A charge of no cost opened no window, so its settlement
		// opens it.
		fresh := w
		fresh.open, fresh.start, fresh.end, fresh.used, fresh.last = false, 0, 0, 0, 0
		if f, _ := fresh.at(c.At); actual > c.Cost && now < f.end && c.At-now <= w.length {
			f.open = true
			f.charged(actual-c.Cost, c.At)
			return f
		}
		return w
	}
	if c.At >= w.start && c.At < w.end {
		if actual > c.Cost {
			w.charged(actual-c.Cost, c.At)
		} else {
			w.used = max(0, w.used+actual-c.Cost)
		}
	}
	return w
}

// Cancel implements State.
func (w Window) Cancel(now int64, c Charge) State {
	if c.Cost == 0 || now > c.At {
		return w
	}
	w = w.Settle(now, c, 0).(Window)
	if w.opened && w.used == 0 && w.start == c.At {
		w.open = false // as before the charge
	}
	return w
}

// Equal implements State.
func (w Window) Equal(s State) bool { return w == s.(Window) }
