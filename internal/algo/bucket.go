package algo

import (
	"math/bits"
)

// Bucket is the token bucket: it holds at most Burst tokens, is refilled at Pace, and starts
// full. A request takes its cost in tokens, or nothing. Over any interval W it admits at most
// burst + ⌊rate·W⌋ units.
//
// It is the "continuous-state leaky bucket as a meter" of ITU-T I.371. V of the state counts the
// ticks missing from a full bucket at the time T, so the zero state is a full bucket. A bucket in
// debt misses more than it can hold, up to MaxUnits or MaxTicks. The highest bit of V marks a
// bucket that has lent, see Cancel.
type Bucket struct {
	Pace
	Burst int64
	// Debt is how many units a settlement or a debit may leave the bucket owing.
	Debt int64

	full   uint64 // Burst in ticks
	most   uint64 // Burst + Debt in ticks
	bound  uint64 // the most ticks that may be missing
	period int64
}

// NewBucket makes a token bucket. period is the period of the rate, in microseconds. The caller has
// checked that burst+debt units fit (Pace.Fits).
func NewBucket(p Pace, period, burst, debt int64) Bucket {
	b := Bucket{
		Pace: p, Burst: burst, Debt: debt,
		full: uint64(burst) * p.Den,
		most: uint64(burst+debt) * p.Den, bound: p.ticks(MaxUnits),
	}
	b.period = max(period, p.wait(b.full))
	return b
}

// Period returns how far time may go back before the clock counts as set back. It is the rate's
// period or the time to fill the bucket, whichever is longer.
func (b *Bucket) Period() int64 { return b.period }

// Restore returns the state of a bucket from the time at which it was last charged, the ticks
// missing then, and whether it has lent.
func (b *Bucket) Restore(at int64, missing uint64, hasLent bool) State {
	if hasLent {
		missing |= lent
	}
	return State{at, missing}
}

// lent is the bit of a bucket whose level no longer shows when its last reservation acts.
const lent = 1 << 63

// settled returns the ticks missing as of the request, the lent bit, the time for which they hold,
// and whether the clock was set back.
func (b *Bucket) settled(s State, now int64) (missing, mark uint64, at int64, setBack bool) {
	passed, at, setBack := elapsed(s.T, now, b.period)
	missing, mark = s.V&^lent, s.V&lent
	if setBack {
		return max(missing, b.full), mark, now, true
	}
	if missing = b.decay(missing, passed); missing == 0 {
		mark = 0 // full again: all reservations have acted
	}
	return missing, mark, at, false
}

// Decide decides one request. The caller keeps the returned state; after a denial it differs from
// s only if the clock was set back, or for a debit.
func (b *Bucket) Decide(s State, req Request) (State, Result) {
	var res Result
	s = b.decide(s, &req, &res)
	return s, res
}

// decide is Decide without copying large values.
func (b *Bucket) decide(s State, req *Request, res *Result) State {
	at, back := req.Now, int64(0)
	missing, mark := s.V, uint64(0)
	if passed := at - s.T; passed >= 0 && missing < lent {
		missing = b.decay(missing, passed)
	} else {
		var setBack bool
		if missing, mark, at, setBack = b.settled(s, req.Now); setBack {
			s = State{at, missing | mark}
		}
		back = at - req.Now
	}
	room := b.full
	if req.Floor > 0 {
		room -= uint64(min(req.Floor, b.Burst)) * b.Den
	}
	if req.Cost == 0 {
		b.look(missing, room, at, req, res)
		return s
	}
	need := req.Cost
	if req.Overdraw {
		need = req.need(b.Burst, int64(b.bound/b.Den))
	}
	if need > b.Burst-req.Floor {
		if req.Debit {
			missing = b.owing(missing, req.Cost)
			s = State{at, missing | mark}
		}
		*res = Result{Reason: Never, Remaining: b.remaining(missing, room), ResetAfter: b.wait(missing) + back}
		return s
	}
	after := missing + uint64(req.Cost)*b.Den
	if after <= room {
		*res = Result{Allowed: true, Remaining: b.remaining(after, room), ResetAfter: b.wait(after) + back, At: at}
		return State{at, after | mark}
	}
	over := after - room
	if need < req.Cost {
		extra := uint64(req.Cost-need) * b.Den
		if over <= extra { // at least one unit is left
			return b.overdrawn(State{at, min(after, b.bound) | mark}, 0, back, res)
		}
		over -= extra
	}
	wait := b.wait(over) + back
	if wait <= req.MaxWait && after <= b.bound {
		*res = Result{Allowed: true, Delay: wait, ResetAfter: b.wait(after) + back, At: at, Over: over}
		if req.Floor > 0 {
			mark = lent // it waits for its floor too, which the level does not show
		}
		if need < req.Cost {
			return b.overdrawn(State{at, after | mark}, wait, back, res)
		}
		return State{at, after | mark}
	}
	if req.Debit {
		missing = b.owing(missing, req.Cost)
		s = State{at, missing | mark}
		after = missing + uint64(req.Cost)*b.Den
		wait = b.wait(after-room) + back
	}
	retry := wait - max(req.MaxWait, 0)
	if after > b.bound {
		retry = max(retry, b.wait(after-b.bound)+back)
	}
	*res = Result{
		Reason: Limited, Remaining: b.remaining(missing, room),
		RetryAfter: retry, ResetAfter: b.wait(missing) + back,
	}
	return s
}

// overdrawn admits a request for more than is left, after a wait. Such a charge counts as acted at once: it is settled
// at 0 to give it back. A cancellation would take its debt for requests that came later.
func (b *Bucket) overdrawn(s State, wait, back int64, res *Result) State {
	*res = Result{Allowed: true, Delay: wait, ResetAfter: b.wait(s.V&^lent) + back, At: max(s.T-1, 0)}
	return s
}

// look decides a request without cost: it passes unless the bucket is in debt.
func (b *Bucket) look(missing, room uint64, at int64, req *Request, res *Result) {
	back := at - req.Now
	*res = Result{Remaining: b.remaining(missing, room), ResetAfter: b.wait(missing) + back}
	if missing <= b.full {
		res.Allowed, res.At = true, at
		return
	}
	over := missing - b.full
	if wait := b.wait(over) + back; wait <= req.MaxWait {
		res.Allowed, res.At, res.Over, res.Delay = true, at, over, wait
	} else {
		res.Reason, res.RetryAfter = Limited, wait-max(req.MaxWait, 0)
	}
}

func (b *Bucket) remaining(missing, room uint64) int64 {
	if missing >= room {
		return 0
	}
	return int64((room - missing) / b.Den)
}

// Fresh reports whether the bucket is full again.
func (b *Bucket) Fresh(s State, now int64) bool {
	return now >= s.T && b.decay(s.V&^lent, now-s.T) == 0
}

// Cancel gives back what a reservation took, except the part on which later reservations rely.
// Tokens that were refilled for later reservations do not exist twice. After the moment at which
// the reservation acts, Cancel gives back nothing. CancelAt of x/time/rate does the same.
//
// Once a part was given back, later reservations act later than the level shows. Two words cannot
// hold how much later: the bucket has lent. The same holds for a reservation that waits for a
// floor. Until such a bucket is full again, a reservation gives back nothing if others may rely on
// it.
func (b *Bucket) Cancel(s State, now int64, c Charge) State {
	missing, mark, at, setBack := b.settled(s, now)
	if c.Cost == 0 || setBack || at > c.At && b.decay(c.Over, at-c.At-1) == 0 {
		return s
	}
	if mark != 0 && c.Over == 0 {
		return s // later reservations may rely on it
	}
	give := b.ticks(c.Cost)
	if after := b.after(c, at, missing); after > 0 {
		if mark != 0 || after >= give {
			return s
		}
		give -= after
		mark = lent
	}
	return credited(at, missing, give, mark)
}

// credited returns a state with give fewer ticks missing.
func credited(at int64, missing, give, mark uint64) State {
	if give >= missing {
		return State{T: at}
	}
	return State{at, (missing - give) | mark}
}

// after returns the ticks that waiting requests took after a charge that has not acted.
func (b *Bucket) after(c Charge, at int64, missing uint64) uint64 {
	// taken is how many ticks the charge left missing. Without a delay it left that many or fewer.
	taken := b.full
	if c.Over > 0 {
		taken += c.Over
		// The burst may have been larger then than now: the charge has the numbers of its time.
		hi, floor := bits.Mul64(uint64(c.Floor), b.Den)
		if hi != 0 || floor > taken {
			floor = taken
		}
		taken -= floor
	}
	if at < c.At {
		return MaxTicks // the clock was set back after the charge
	}
	gone := uint64(at-c.At) * b.Num // the wait of the charge, plus at most one microsecond of refill
	if missing+gone <= taken {
		return 0
	}
	return missing + gone - taken
}

// Settle replaces the cost of a charge by the actual cost, at the moment of settling. A surplus
// is credited up to a full bucket. A shortfall is charged, into debt up to b.Debt; the rest is
// forgiven.
func (b *Bucket) Settle(s State, now int64, c Charge, actual int64) State {
	missing, mark, at, _ := b.settled(s, now)
	actual = min(actual, MaxUnits)
	if actual <= c.Cost {
		if missing > b.full && actual < c.Cost {
			mark = lent
		}
		return credited(at, missing, b.ticks(c.Cost-actual), mark)
	}
	return State{at, b.owing(missing, actual-c.Cost) | mark}
}

// owing returns the ticks that are missing after units were charged, whatever is left. A bucket owes
// b.Debt at most; the rest is forgiven.
func (b *Bucket) owing(missing uint64, units int64) uint64 {
	return max(missing, min(missing+b.ticks(units), b.most))
}

// Convert returns the state that from's state s becomes under these numbers: the tokens that were
// used stay used. They come back at the higher of both rates, so that it makes no difference
// whether a bucket that was full under the old numbers has been forgotten. Waiting requests keep
// their moments, and a debt lasts as long as before.
func (b *Bucket) Convert(from *Bucket, s State, now int64) State {
	missing, mark, at, setBack := from.settled(s, now)
	faster := b.faster(from.Pace) && !setBack
	if faster {
		missing = s.V &^ lent
		if missing > from.full {
			mark = lent // waiting requests got later moments
		}
	}
	base := from.full
	if s.V >= lent {
		base = 0 // the level does not show how long requests wait
	}
	missing = min(b.carry(from.Pace, missing, base), b.bound)
	if faster {
		missing = b.decay(missing, at-s.T)
	}
	if missing == 0 {
		return State{T: at} // a full bucket may be forgotten, and stays fresh
	}
	return State{at, missing | mark}
}

// await corrects the times of a result that leaves from's state s as it is. Until a charge under
// these numbers, the tokens come back at the higher of both rates.
func (b *Bucket) await(from *Bucket, s State, req *Request, res *Result) {
	if b.faster(from.Pace) {
		return // Convert counts at this rate
	}
	missing, _, at, _ := from.settled(s, req.Now)
	back := at - req.Now
	res.ResetAfter = from.wait(missing) + back
	if res.Reason != Limited {
		return
	}
	longest, room, bound := max(req.MaxWait, 0), b.full, uint64(2*MaxTicks)
	if req.Cost > 0 {
		need := uint64(req.need(b.Burst, int64(b.bound/b.Den))) * b.Den
		room -= uint64(min(req.Floor, b.Burst))*b.Den + need
		bound = b.bound - uint64(req.Cost)*b.Den
	}
	now := min(b.carry(from.Pace, missing, from.full), b.bound)
	if wait := b.wait(now - room); wait <= longest && now <= bound {
		res.RetryAfter = back + wait - longest
		return
	}
	late, _ := mulDiv(uint64(longest), b.Num, 1)
	res.RetryAfter = from.wait(missing-b.fits(from.Pace, min(room+late, bound))) + back
}

// ConvertCharge converts a charge made under from's numbers to ticks of these numbers. The time at
// which the rate changed is unknown, so ConvertCharge assumes that the faster rate refilled the
// bucket. A cancellation then never gives back units on which later reservations rely.
func (b *Bucket) ConvertCharge(from *Bucket, c Charge, now int64) Charge {
	since, faster := now-c.At, from.faster(b.Pace)
	if since > 0 && faster && from.decay(c.Over, since-1) == 0 {
		c.Over = 0 // it has acted
		return c
	}
	c.Over, _ = mulDiv(c.Over, b.Den, from.Den)
	if since > 0 && faster {
		was := mulDivUp(from.refilled(since), b.Den, from.Den)
		c.Over -= min(c.Over, was-min(was, b.refilled(since)))
	}
	return c
}

// refilled returns the ticks that come back in some time, at most the ticks that can be missing.
func (b *Bucket) refilled(micros int64) uint64 {
	n, _ := mulDiv(uint64(micros), b.Num, 1)
	return min(n, b.bound)
}

// Take is Decide for the simplest requests: the cost can fit, there is no floor and no wait, and
// time does not go back. It returns the state to keep and 0. If the tokens do not suffice, it
// returns the state as of now and the ticks that are short. plain is false if the caller must
// call Decide.
//
// All arguments and results pass in registers.
func (b *Bucket) Take(s State, now, cost int64) (next State, short uint64, plain bool) {
	missing, passed := s.V, now-s.T
	// The highest bit is set if time goes back, or if the bucket has lent.
	if passed|int64(missing) < 0 || cost < 1 || cost > b.Burst {
		return s, 0, false
	}
	if hi, lo := bits.Mul64(uint64(passed), b.Num); hi != 0 || lo >= missing {
		missing = 0
	} else {
		missing -= lo
	}
	after := missing + uint64(cost)*b.Den
	if after > b.full {
		return State{now, missing}, after - b.full, true
	}
	return State{now, after}, 0, true
}

// Held returns the whole tokens in a bucket. The state must come from Take.
func (b *Bucket) Held(s State) int64 { return b.remaining(s.V, b.full) }

// Full returns the microseconds until a bucket is full. The state must come from Take.
func (b *Bucket) Full(s State) int64 { return b.wait(s.V) }

// Wait returns the microseconds until the short ticks are refilled.
func (b *Bucket) Wait(short uint64) int64 { return b.wait(short) }

// Missing returns the ticks that are missing from a full bucket at a time.
func (b *Bucket) Missing(s State, now int64) uint64 {
	missing, _, _, _ := b.settled(s, now)
	return missing
}

// Undo gives back a charge on which nobody has acted. The state is then as if the charge had never
// been made, or has slightly fewer tokens. c.Over holds the ticks that were missing before the
// charge. Without the charge the bucket might have become full since; Undo does not give back what
// would have overflowed.
func (b *Bucket) Undo(s State, now int64, c Charge) State {
	missing, mark, at, setBack := b.settled(s, now)
	if setBack || at < c.At {
		return s
	}
	give, refilled := b.ticks(c.Cost), b.refilled(at-c.At)
	if refilled == b.bound {
		return s
	}
	if refilled > c.Over {
		give -= min(give, refilled-c.Over)
	}
	if missing > b.full && give > 0 {
		mark = lent // waiting requests got later moments
	}
	return credited(at, missing, give, mark)
}
