package algo

import "math/bits"

// FixedWindow counts the units of consecutive windows and admits at most Count in each. Over an
// interval that straddles a boundary it admits up to 2·count.
//
// Windows begin at multiples of Length since the epoch, or with their first charge, or are periods
// of a Calendar. With CountDenied it counts the units of a denied attempt too, up to MaxCount.
//
// In the state, T is the end of the window, and V is the units counted in it. The highest bits of
// both hold the time of the latest charge, which conversions to other numbers use.
type FixedWindow struct {
	Count       int64
	Length      int64 // microseconds; with a calendar, the longest period
	Opened      bool
	CountDenied bool
	*Calendar

	begins int64 // of the kept window, if its calendar is not known
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

// Of V, 54 bits hold the units, one says that the moment of the latest charge is kept, and 9 hold
// a part of it. The other part is in the 10 bits of T above its time, and below its sign.
const (
	fixedTime  = 1<<53 - 1
	fixedUnits = 1<<54 - 1
	fixedTimed = 1 << 54
	fixedBits  = 19 // bits
	fixedLow   = 9  // of them, in V
)

// lost returns how many low bits of the time from the latest charge to the end are not kept.
func (w *FixedWindow) lost() int { return max(0, bits.Len64(uint64(w.Length))-fixedBits) }

// unpack returns the end of a window, and its units.
func (w *FixedWindow) unpack(s State) (end int64, used uint64) {
	if s.V&fixedTimed != 0 {
		s.T &= fixedTime
	}
	return s.T, s.V & fixedUnits
}

// latest returns the moment of the latest charge, or slightly later.
func (w *FixedWindow) latest(s State) int64 {
	end, _ := w.unpack(s)
	if s.V&fixedTimed == 0 {
		return end
	}
	before := s.T>>53<<fixedLow | int64(s.V>>(64-fixedLow))
	return end - before<<w.lost()
}

// pack returns a state. It keeps the later one of the moment at and of the latest charge of s, if
// that is a state of the same window with units in it.
func (w *FixedWindow) pack(s State, end int64, used uint64, at int64) State {
	if end > fixedTime || end <= at {
		return State{end, used}
	}
	before := uint64(end-at) >> w.lost()
	if s.V&fixedTimed != 0 && s.V&fixedUnits != 0 && s.T&fixedTime == end {
		before = min(before, uint64(s.T)>>53<<fixedLow|s.V>>(64-fixedLow))
	}
	if before >= 1<<fixedBits {
		return State{end, used} // the window is longer than its length says
	}
	return State{end | int64(before>>fixedLow<<53), used | fixedTimed | before<<(64-fixedLow)}
}

// Restore returns the state of a window that ends at end, with so many units, the latest of which
// was charged at a time.
func (w *FixedWindow) Restore(end int64, used uint64, latest int64) State {
	return w.pack(State{}, end, used, latest)
}

// settled returns the window as of the request: its end and the units used in it. It also returns
// the time from which to compute, and whether the clock was set back.
func (w *FixedWindow) settled(s State, now int64) (end int64, used uint64, at int64, setBack bool) {
	end, used = w.unpack(s)
	if now >= end {
		return w.end(now), 0, now, false
	}
	start := w.startBefore(end, now)
	if now >= start || start-now <= w.Length {
		return end, used, max(now, start), false
	}
	return w.end(now), max(used, uint64(w.Count)), now, true
}

// Decide decides one request. The caller keeps the returned state; after a denial it differs from
// s only if the clock was set back, with CountDenied, or for a debit.
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
		kept = w.pack(State{}, end, used, at)
	}
	*res = Result{Remaining: left(w.Count, req.Floor, used)}
	switch keptUntil, _ := w.unpack(kept); {
	case req.Now >= keptUntil:
	case used > 0 || w.Opened:
		res.ResetAfter = end - req.Now
	case at > req.Now: // the clock went back to before an empty window
		res.ResetAfter = at - req.Now
	}
	counts, need := req.Debit, req.need(w.Count, MaxCount)
	switch {
	case req.Cost == 0:
		if used > uint64(w.Count) {
			res.Reason, res.RetryAfter = Limited, end-req.Now
			return kept
		}
		res.Allowed, res.At = true, at
		return kept
	case need > w.Count-req.Floor:
		res.Reason = Never
	case need > res.Remaining:
		res.Reason, res.RetryAfter = Limited, end-req.Now
		counts = counts || w.CountDenied
	default:
		res.Allowed, res.At = true, at
		res.Remaining = max(0, res.Remaining-req.Cost)
		res.ResetAfter = end - req.Now
		return w.pack(kept, end, min(used+uint64(req.Cost), MaxCount), at)
	}
	if !counts {
		return kept
	}
	res.Remaining, res.ResetAfter = 0, end-req.Now // the cost exceeds what was left
	return w.pack(kept, end, min(used+uint64(req.Cost), MaxCount), at)
}

// Fresh reports whether nothing counts any more.
func (w *FixedWindow) Fresh(s State, now int64) bool {
	end, used := w.unpack(s)
	return now >= end || used == 0 && !w.Opened && now >= w.startBefore(end, now)
}

// Cancel gives a charge back at the moment at which it was made. Later it gives back nothing.
func (w *FixedWindow) Cancel(s State, now int64, c Charge) State {
	if c.Cost == 0 || now > c.At {
		return s
	}
	s = w.Settle(s, now, c, 0)
	if end, used := w.unpack(s); used == 0 && w.Opened && end == c.At+w.Length {
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
			return w.pack(State{}, end, uint64(min(actual-c.Cost, MaxCount)), c.At)
		}
		return s
	}
	end, used := w.unpack(s)
	if c.At != Newest && (w.startOf(end) > c.At || c.At >= end) || c.At == Newest && actual > c.Cost {
		return s
	}
	if actual <= c.Cost {
		s.V -= min(used, uint64(c.Cost-actual))
		return s
	}
	return w.pack(s, end, min(used+uint64(actual-c.Cost), MaxCount), c.At)
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
	switch {
	case w.Calendar != nil:
		return w.Calendar.Start(end - 1)
	case w.begins != 0:
		return w.begins
	}
	return end - w.Length
}

// Begun returns the numbers of a limit whose kept window began at a time. Its calendar is not
// known.
func (w FixedWindow) Begun(at int64) FixedWindow {
	w.begins = at
	return w
}

// alike reports whether the windows of two limits begin and end together.
func (w *FixedWindow) alike(from *FixedWindow) bool {
	return w.Length == from.Length && w.Opened == from.Opened && w.begins == from.begins &&
		(w.Calendar == from.Calendar || w.Calendar != nil && from.Calendar != nil && w.Calendar.alike(from.Calendar))
}

// setBack reports whether the clock was set back after the state was charged.
func (w *FixedWindow) setBack(s State, now int64) bool {
	_, _, _, setBack := w.settled(s, now) //nolint:dogsled // nothing else matters
	return setBack
}

// carried returns the units of from's state in the terms of these windows. With a calendar, units
// come back at the boundary that follows.
func (w *FixedWindow) carried(from *FixedWindow, s State) carry {
	_, used := from.unpack(s)
	latest := from.latest(s)
	c := carry{units: used, count: uint64(w.Count), first: latest + w.Length, step: w.Length}
	switch {
	case w.Calendar != nil:
		c.first = latest + 1
	case !w.Opened:
		c.first -= latest % w.Length
	}
	return c
}

// Convert returns the state that from's state s becomes under these numbers. The units stay until
// the window ends, if both have the same windows. Otherwise the units that are left count in
// the window of now, see carry.
func (w *FixedWindow) Convert(from *FixedWindow, s State, now int64) State {
	_, used, at, setBack := from.settled(s, now)
	switch {
	case setBack:
	case w.alike(from):
		return s
	case w.Calendar != nil:
		used = min(used, w.carried(from, s).left(w.Calendar.Start(at)))
	default:
		used = min(used, w.carried(from, s).left(at))
	}
	if used == 0 {
		return State{}
	}
	return w.pack(State{}, w.end(at), used, at)
}

// await corrects the numbers of a result that leaves from's state s as it is.
func (w *FixedWindow) await(from *FixedWindow, s State, req *Request, res *Result) {
	if w.alike(from) {
		return
	}
	end, used, at, _ := from.settled(s, req.Now)
	c := w.carried(from, s)
	// until returns when at most room units are left, which are fewer than now.
	until := func(room int64) int64 {
		t := c.until(uint64(room))
		if w.Calendar != nil {
			t = w.Calendar.End(t - 1)
		}
		return min(t, end) - req.Now
	}
	today := at
	if w.Calendar != nil {
		today = w.Calendar.Start(at)
	}
	if used = min(used, c.left(today)); used == 0 {
		return
	}
	res.ResetAfter = until(0)
	if res.Reason == Limited {
		res.Remaining = left(w.Count, req.Floor, used)
		res.RetryAfter = until(w.Count - req.need(w.Count, MaxCount) - req.keeps())
	}
}
