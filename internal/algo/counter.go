package algo

import "math/bits"

// SlidingCounter approximates a sliding window by two fixed windows. It adds the units of the
// current window and the weighted units of the earlier window. The weight is the part of the
// earlier window that the sliding window still covers; the product is rounded up. In the worst
// case it admits 2·count − 1 units over an interval of one window.
//
// With CountDenied it counts the units of a denied attempt in the current window too; they weigh
// in the next window like all others.
//
// The state packs the moment of the latest charge (48 bits: the number of the window, and a part of
// it) with the counts of the earlier and of the current window (40 bits each).
type SlidingCounter struct {
	Count       int64
	Length      int64 // microseconds, MinCounterLength at least
	CountDenied bool
}

// The bounds of a SlidingCounter, which make its state fit into two words.
const (
	MaxCounterCount  = 1<<39 - 1
	MinCounterLength = 1000
)

// counterMax bounds the count of one window: more than any limit admits in two.
const counterMax = 1<<40 - 1

// counterLost is how many low bits of the time of the latest charge are not kept, so that it fits
// until the year 2255.
const counterLost = 6

// within returns how many bits hold the time of the latest charge within its window.
func (c *SlidingCounter) within() int { return bits.Len64(uint64(c.Length-1) >> counterLost) }

func (c *SlidingCounter) unpack(s State) (index int64, prev, cur uint64) {
	t := uint64(s.T)
	return int64(t >> 16 >> c.within()), t&0xffff<<24 | s.V>>40, s.V & counterMax
}

// pack returns a state whose latest charge was at a moment, in its window or before it.
func (c *SlidingCounter) pack(index int64, prev, cur uint64, latest int64) State {
	return c.charged(State{}, index, prev, cur, latest)
}

// latest returns the moment of the latest charge, or slightly later.
func (c *SlidingCounter) latest(s State) int64 {
	index, _, _ := c.unpack(s)
	into := uint64(s.T) >> 16 & (1<<c.within() - 1)
	return index*c.Length + int64(into<<counterLost|(1<<counterLost-1))
}

// Restore returns the state with this window number, the counts of this window and the earlier
// one, below 2^40 each, and the moment of the latest charge, in this window.
func (c *SlidingCounter) Restore(index int64, prev, cur uint64, latest int64) State {
	return c.pack(index, prev, cur, latest)
}

// settled returns the two windows as of the request, the time from which to compute, and whether
// the clock was set back.
func (c *SlidingCounter) settled(s State, now int64) (index int64, prev, cur uint64, at int64, setBack bool) {
	index, prev, cur = c.unpack(s)
	switch i := now / c.Length; {
	case i == index:
		return index, prev, cur, now, false
	case i == index+1:
		return i, cur, 0, now, false
	case i > index:
		return i, 0, 0, now, false
	default:
		start := index * c.Length
		if start-now <= c.Length {
			return index, prev, cur, start, false
		}
		return i, 0, max(cur, uint64(c.Count)), now, true
	}
}

// weighted returns how much of the earlier window still counts at a time into the current one.
func (c *SlidingCounter) weighted(prev uint64, into int64) int64 {
	return int64(mulDivUp(prev, uint64(c.Length-into), uint64(c.Length)))
}

// until returns how far into a window the weighted units of the earlier window have fallen to
// room.
func (c *SlidingCounter) until(prev uint64, room int64) int64 {
	if int64(prev) <= room {
		return 0
	}
	covered, _ := mulDiv(uint64(room), uint64(c.Length), prev)
	return c.Length - int64(covered)
}

// falls returns when the units of two windows have fallen to room.
func (c *SlidingCounter) falls(index int64, prev, cur uint64, room int64) int64 {
	start := index * c.Length
	if int64(cur) <= room {
		return start + c.until(prev, room-int64(cur))
	}
	return start + c.Length + c.until(cur, room)
}

// Decide decides one request. The caller keeps the returned state; after a denial it differs from
// s only if the clock was set back, with CountDenied, or for a debit.
func (c *SlidingCounter) Decide(s State, req Request) (State, Result) {
	var res Result
	s = c.decide(s, &req, &res)
	return s, res
}

// decide is Decide without copying large values.
func (c *SlidingCounter) decide(s State, req *Request, res *Result) State {
	index, prev, cur, at, setBack := c.settled(s, req.Now)
	kept := s
	if setBack {
		kept = c.pack(index, prev, cur, at)
	}
	start := index * c.Length
	used := c.weighted(prev, at-start) + int64(cur)
	*res = Result{Remaining: left(c.Count, req.Floor, uint64(used)), ResetAfter: c.reset(index, prev, cur, req.Now)}
	room, counts := req.room(c.Count, counterMax), req.Debit
	switch {
	case room < 0:
		res.Reason = Never
	case used > room:
		res.Reason = Limited
		counts = counts || c.CountDenied
	}
	if res.Reason != None {
		if counts && req.Cost > 0 {
			// Decide as if the window already held the cost, which exceeds what was left.
			cur = min(cur+uint64(req.Cost), counterMax)
			kept = c.charged(s, index, prev, cur, at)
			res.Remaining, res.ResetAfter = 0, c.reset(index, prev, cur, req.Now)
		}
		if res.Reason == Limited {
			res.RetryAfter = c.falls(index, prev, cur, room) - req.Now
		}
		return kept
	}
	res.Allowed, res.At = true, at
	if req.Cost == 0 {
		return kept
	}
	cur += uint64(req.Cost)
	res.Remaining = max(0, res.Remaining-req.Cost)
	res.ResetAfter = c.reset(index, prev, cur, req.Now)
	return c.charged(s, index, prev, cur, at)
}

// charged returns the state that follows s after a charge. It keeps the later one of the moment at
// and of the latest charge of s, if that is in the same window and has units.
func (c *SlidingCounter) charged(s State, index int64, prev, cur uint64, at int64) State {
	n := c.within()
	moment := uint64(index)<<n | uint64(max(at-index*c.Length, 0))>>counterLost
	if was := uint64(s.T) >> 16; was > moment && was>>n == uint64(index) && uint64(s.T)&0xffff|s.V != 0 {
		moment = was
	}
	return State{T: int64(moment<<16 | prev>>24), V: prev<<40 | cur}
}

func (c *SlidingCounter) reset(index int64, prev, cur uint64, now int64) int64 {
	switch {
	case cur > 0:
		return (index+2)*c.Length - now
	case prev > 0:
		return (index+1)*c.Length - now
	default:
		return max(0, index*c.Length-now) // both windows are empty, and the clock went back to before them
	}
}

// Fresh reports whether neither window counts any more.
func (c *SlidingCounter) Fresh(s State, now int64) bool {
	index, prev, cur := c.unpack(s)
	return c.reset(index, prev, cur, now) <= 0
}

// Cancel gives a charge back at the moment at which it was made. Later it gives back nothing.
func (c *SlidingCounter) Cancel(s State, now int64, ch Charge) State {
	if ch.Cost == 0 || now > ch.At {
		return s
	}
	return c.Settle(s, now, ch, 0)
}

// Settle replaces the cost of a charge by the actual cost, while its window counts.
func (c *SlidingCounter) Settle(s State, now int64, ch Charge, actual int64) State {
	index, prev, cur, _, setBack := c.settled(s, now)
	if setBack {
		return s
	}
	change := func(n uint64) uint64 {
		if actual <= ch.Cost {
			return n - min(n, uint64(ch.Cost-actual))
		}
		return min(n+uint64(actual-ch.Cost), counterMax)
	}
	if ch.At == Newest {
		units := uint64(ch.Cost - min(actual, ch.Cost))
		give := min(cur, units)
		return c.charged(s, index, prev-min(prev, units-give), cur-give, index*c.Length)
	}
	i := ch.At / c.Length
	if i > index && i*c.Length-now <= c.Length { // a charge without cost did not move the state
		index, prev, cur, _, _ = c.settled(s, ch.At)
	}
	switch i {
	case index:
		cur = change(cur)
	case index - 1:
		prev = change(prev)
	default:
		return s
	}
	return c.charged(s, index, prev, cur, ch.At)
}

// setBack reports whether the clock was set back after the state was charged.
func (c *SlidingCounter) setBack(s State, now int64) bool {
	_, _, _, _, setBack := c.settled(s, now) //nolint:dogsled // nothing else matters
	return setBack
}

// carried returns the units of from's state in the terms of these windows: they weigh in full until
// the window after the one of their moment has ended.
func (c *SlidingCounter) carried(from *SlidingCounter, s State) carry {
	index, prev, cur := from.unpack(s)
	latest := from.latest(s)
	since := (latest - index*from.Length) &^ (1<<counterLost - 1) // or earlier: the units weigh no less
	used := from.weighted(prev, min(since, from.Length)) + int64(cur)
	return carry{units: uint64(used), count: uint64(c.Count), first: (latest/c.Length + 2) * c.Length, step: c.Length}
}

// Convert returns the state that from's state s becomes under these numbers. If the length
// changes, the units that are left count as of now, see carry.
func (c *SlidingCounter) Convert(from *SlidingCounter, s State, now int64) State {
	if from.Length == c.Length {
		if from.setBack(s, now) {
			index, prev, cur, at, _ := from.settled(s, now)
			return c.pack(index, prev, cur, at)
		}
		return s
	}
	index, prev, cur, at, setBack := from.settled(s, now)
	used := uint64(from.weighted(prev, at-index*from.Length)) + cur
	if !setBack {
		used = min(used, c.carried(from, s).left(at))
	}
	if used == 0 {
		return State{}
	}
	return c.pack(at/c.Length, 0, min(used, counterMax), at)
}

// await corrects the numbers of a result that leaves from's state s as it is.
func (c *SlidingCounter) await(from *SlidingCounter, s State, req *Request, res *Result) {
	if from.Length == c.Length {
		return
	}
	index, prev, cur, at, _ := from.settled(s, req.Now)
	carried := c.carried(from, s)
	used := min(uint64(from.weighted(prev, at-index*from.Length))+cur, carried.left(at))
	if used == 0 {
		res.ResetAfter = 0
		return
	}
	// until returns when at most room units are left, which are fewer than now.
	until := func(room int64) int64 {
		return min(carried.until(uint64(room)), from.falls(index, prev, cur, room)) - req.Now
	}
	res.ResetAfter = until(0)
	if res.Reason == Limited {
		res.Remaining = left(c.Count, req.Floor, used)
		res.RetryAfter = until(c.Count - req.need(c.Count, counterMax) - req.keeps())
	}
}
