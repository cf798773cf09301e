package algo

// FixedWindow counts the units of consecutive windows and admits at most Count in each. Over an
// interval that straddles a boundary it admits up to 2·count.
//
// Windows begin at multiples of Length since the epoch, or with their first charge, or are periods
// of a Calendar. With CountDenied it counts the units of a denied attempt too, up to MaxCount.
// Requests without cost always pass then, because an attempt cannot be distinguished from debt.
//
// In the state, T is the end of the window, and V is the units counted in it.
type FixedWindow struct {
	Count       int64
	Length      int64 // microseconds; with a calendar, the longest period
	Opened      bool
	CountDenied bool
	*Calendar
}

// MaxCount bounds the count of a window, so that sums never overflow. No limit admits as much.
const MaxCount = 1 << 53

// end returns the end of the window that begins at now or contains it.
func (w *FixedWindow) end(now int64) int64 {
	switch {
	case w.Calendar != nil:
		return w.Calendar.End(now)
	case w.Opened:
		return now + w.Length
	default:
		return now - now%w.Length + w.Length
	}
}

// settled returns the window as of the request: its end and the units used in it. It also returns
// the time from which to compute, and whether the clock was set back.
func (w *FixedWindow) settled(s State, now int64) (end int64, used uint64, at int64, setBack bool) {
	if now >= s.T {
		return w.end(now), 0, now, false
	}
	start := w.startBefore(s.T, now)
	if now >= start || start-now <= w.Length {
		return s.T, s.V, max(now, start), false
	}
	return w.end(now), max(s.V, uint64(w.Count)), now, true
}

// Decide decides one request. The caller keeps the returned state; after a denial it differs from
// s only if the clock was set back, or with CountDenied.
func (w *FixedWindow) Decide(s State, req Request) (State, Result) {
	var res Result
	s = w.decide(s, &req, &res)
	return s, res
}

// decide is Decide without copying large values.
func (w *FixedWindow) decide(s State, req *Request, res *Result) State {
	end, used, at, setBack := w.settled(s, req.Now)
	kept := s
	if setBack {
		kept = State{end, used}
	}
	*res = Result{Remaining: left(w.Count, req.Floor, used)}
	switch {
	case req.Now >= kept.T:
	case used > 0 || w.Opened:
		res.ResetAfter = end - req.Now
	case at > req.Now: // the clock went back to before an empty window
		res.ResetAfter = at - req.Now
	}
	switch {
	case req.Cost == 0:
		if used > uint64(w.Count) && !w.CountDenied {
			res.Reason, res.RetryAfter = Limited, end-req.Now
			return kept
		}
		res.Allowed, res.At = true, at
		return kept
	case req.Cost > w.Count-req.Floor:
		res.Reason = Never
		return kept
	case req.Cost > res.Remaining:
		res.Reason, res.RetryAfter = Limited, end-req.Now
		if w.CountDenied {
			res.Remaining = 0 // the attempt exceeds what was left
			return State{end, min(used+uint64(req.Cost), MaxCount)}
		}
		return kept
	}
	res.Allowed, res.At = true, at
	res.Remaining -= req.Cost
	res.ResetAfter = end - req.Now
	return State{end, used + uint64(req.Cost)}
}

// Fresh reports whether nothing counts any more.
func (w *FixedWindow) Fresh(s State, now int64) bool {
	return now >= s.T || s.V == 0 && !w.Opened && now >= w.startBefore(s.T, now)
}

// Cancel gives a charge back at the moment at which it was made. Later it gives back nothing.
func (w *FixedWindow) Cancel(s State, now int64, c Charge) State {
	if now > c.At {
		return s
	}
	s = w.Settle(s, now, c, 0)
	if s.V == 0 && w.Opened && s.T == c.At+w.Length {
		return State{} // the charge had opened the window
	}
	return s
}

// Settle replaces the cost of a charge by the actual cost, while its window counts. An opened
// window ends at its time, even if nothing is left in it.
func (w *FixedWindow) Settle(s State, now int64, c Charge, actual int64) State {
	if w.Fresh(s, now) {
		// No window is kept, but the window of a charge without cost may still last.
		if end := w.end(c.At); actual > c.Cost && now < end && c.At-now <= w.Length {
			return State{end, uint64(min(actual-c.Cost, MaxCount))}
		}
		return s
	}
	if w.startOf(s.T) > c.At || c.At >= s.T {
		return s
	}
	if actual <= c.Cost {
		s.V -= min(s.V, uint64(c.Cost-actual))
		return s
	}
	s.V = min(s.V+uint64(actual-c.Cost), MaxCount)
	return s
}

// startBefore returns the start of the window that ends at end, or any time in that window that
// is not later than now. So it needs the calendar only rarely.
func (w *FixedWindow) startBefore(end, now int64) int64 {
	if w.Calendar != nil {
		if sure := end - w.Calendar.shortest(); now >= sure {
			return sure
		}
	}
	return w.startOf(end)
}

func (w *FixedWindow) startOf(end int64) int64 {
	if w.Calendar != nil {
		return w.Calendar.Start(end - 1)
	}
	return end - w.Length
}

// Convert returns the state that from's state s becomes under these numbers. The counted units
// stay until the new window ends. An opened window ends no later than the old one, unless the
// clock was set back.
func (w *FixedWindow) Convert(from *FixedWindow, s State, now int64) State {
	end, used, at, setBack := from.settled(s, now)
	switch {
	case used == 0:
		return State{}
	case w.Opened && setBack:
		return State{at + w.Length, used}
	case w.Opened:
		return State{min(end, at+w.Length), used}
	}
	return State{w.end(at), used}
}
