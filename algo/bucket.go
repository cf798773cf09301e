package algo

import "math/bits"

// Bucket is the token bucket: Burst tokens at most, refilled at Pace, starting
// full. A request takes its cost in tokens or nothing. Over any interval W it
// admits at most burst + ⌊rate·W⌋ units.
//
// It is the "continuous-state leaky bucket as a meter" of ITU-T I.371: the state
// counts the ticks missing from a full bucket (V) at a time (T), so that zero is
// a full one. A bucket that owes has more missing than it holds.
type Bucket struct {
	Pace
	Burst int64
	// Debt is how many units a settlement may leave the bucket owing.
	Debt int64

	full   uint64 // Burst in ticks
	most   uint64 // Burst + Debt in ticks
	period int64
}

// NewBucket makes a token bucket. period is the rate's own, in microseconds.
// The caller has checked that burst+debt units fit (Pace.Fits).
func NewBucket(p Pace, period, burst, debt int64) Bucket {
	b := Bucket{
		Pace: p, Burst: burst, Debt: debt,
		full: uint64(burst) * p.Den,
		most: uint64(burst+debt) * p.Den,
	}
	b.period = max(period, p.wait(b.full))
	return b
}

// settled returns the ticks missing as of the question, and the time that is.
func (b *Bucket) settled(s State, now int64) (missing uint64, at int64, setBack bool) {
	passed, at, setBack := elapsed(s.T, now, b.period)
	if setBack {
		return max(s.V, b.full), now, true
	}
	return b.decay(s.V, passed), at, false
}

// Decide answers one question. The state returned is the one to keep; on a
// denial it differs from s only when the clock was set back.
func (b *Bucket) Decide(s State, a Ask) (State, Answer) {
	missing, at, setBack := b.settled(s, a.Now)
	kept := s
	if setBack {
		kept = State{at, missing}
	}
	room := b.full - uint64(min(a.Floor, b.Burst))*b.Den
	if a.Cost == 0 {
		room = b.full
	}
	if a.Cost > b.Burst-a.Floor && a.Cost > 0 {
		return kept, Answer{
			Reason: Never, Remaining: b.remaining(missing, room),
			ResetAfter: b.wait(missing) + (at - a.Now),
		}
	}
	after := missing + uint64(a.Cost)*b.Den
	if after <= room {
		return State{at, after}, Answer{
			Allowed: true, Remaining: int64((room - after) / b.Den),
			ResetAfter: b.wait(after) + (at - a.Now), At: at,
		}
	}
	over := after - room
	wait := b.wait(over) + (at - a.Now)
	if wait <= a.MaxWait && after <= MaxTicks {
		return State{at, after}, Answer{
			Allowed: true, Delay: wait,
			ResetAfter: b.wait(after) + (at - a.Now), At: at, Over: over,
		}
	}
	retry := wait - max(a.MaxWait, 0)
	if after > MaxTicks {
		retry = max(retry, b.wait(after-MaxTicks))
	}
	return kept, Answer{
		Reason: Limited, Remaining: b.remaining(missing, room),
		RetryAfter: retry,
		ResetAfter: b.wait(missing) + (at - a.Now),
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
	return now >= s.T && b.decay(s.V, now-s.T) == 0
}

// Cancel gives back what a reservation took, less what later reservations
// stand on: tokens that were refilled for them and are not there twice. After the
// reservation's moment it gives back nothing. As x/time/rate's CancelAt.
func (b *Bucket) Cancel(s State, now int64, c Charge) State {
	missing, at, setBack := b.settled(s, now)
	if setBack || now > c.At && b.decay(c.Over, now-c.At-1) == 0 {
		return s
	}
	give := uint64(c.Cost) * b.Den
	// The reservation acts Over ticks after At; those after it act until the
	// bucket has its floor back.
	room := b.full - uint64(c.Floor)*b.Den
	if missing > room {
		give -= min(give, b.after(c, at, missing-room))
	}
	return State{at, missing - min(missing, give)}
}

// after returns by how many ticks the last reservation's moment, owed ticks from
// at, lies after that of the charge.
func (b *Bucket) after(c Charge, at int64, owed uint64) uint64 {
	hi, gone := bits.Mul64(uint64(at-c.At), b.Num)
	if hi != 0 || gone > MaxTicks {
		return MaxTicks
	}
	if owed+gone <= c.Over {
		return 0
	}
	return owed + gone - c.Over
}

// Settle replaces the cost of a charge by the actual one, at the moment of
// settling: a surplus is credited up to a full bucket, the rest is charged, into
// debt up to b.Debt; what is beyond is forgiven.
func (b *Bucket) Settle(s State, now int64, c Charge, actual int64) State {
	missing, at, _ := b.settled(s, now)
	if actual <= c.Cost {
		return State{at, missing - min(missing, uint64(c.Cost-actual)*b.Den)}
	}
	more, _ := mulDiv(uint64(actual-c.Cost), b.Den, 1)
	return State{at, max(missing, min(missing+more, b.most))}
}

// Convert returns the state that from's state s is under these numbers: settled
// under the old, the tokens kept, clamped to the new burst. As x/time/rate's SetLimitAt and
// SetBurstAt.
func (b *Bucket) Convert(from *Bucket, s State, now int64) State {
	missing, at, _ := from.settled(s, now)
	if missing <= from.full { // tokens held: round down
		held, _ := mulDiv(from.full-missing, b.Den, from.Den)
		return State{at, b.full - min(held, b.full)}
	}
	return State{at, min(b.full+mulDivUp(missing-from.full, b.Den, from.Den), MaxTicks)}
}

// ConvertOver puts the Over of a charge under from's numbers in ticks of these.
func (b *Bucket) ConvertOver(from *Bucket, over uint64) uint64 {
	over, _ = mulDiv(over, b.Num, from.Num)
	return over
}
