package algo

// LeakyBucket is the leaky bucket as a queue: units leave one at a time at Pace. Up to Queue units
// wait; the result has the delay. The first Undelayed units of the queue leave at once, as with
// nginx's "delay=" and "nodelay". Over any interval W at most ⌊rate·W⌋ + 1 units depart, plus the
// undelayed ones.
//
// The state counts the ticks of work in the queue (V) at a time (T).
type LeakyBucket struct {
	Pace
	Queue, Undelayed int64

	queue  uint64 // Queue in ticks
	period int64
}

// NewLeakyBucket makes a leaky bucket. The caller has checked that queue+1 units fit.
func NewLeakyBucket(p Pace, period, queue, undelayed int64) LeakyBucket {
	b := LeakyBucket{Pace: p, Queue: queue, Undelayed: min(undelayed, queue), queue: uint64(queue) * p.Den}
	b.period = max(period, p.wait(b.queue+p.Den))
	return b
}

// Period returns how far time may go back before the clock counts as set back. It is the rate's
// period or the time to empty the bucket, whichever is longer.
func (b *LeakyBucket) Period() int64 { return b.period }

func (b *LeakyBucket) settled(s State, now int64) (work uint64, at int64, setBack bool) {
	passed, at, setBack := elapsed(s.T, now, b.period)
	if setBack {
		return max(s.V, b.queue+b.Den), at, true
	}
	return b.decay(s.V, passed), at, false
}

// Decide decides one request. The caller keeps the returned state; after a denial it differs from
// s only if the clock was set back.
func (b *LeakyBucket) Decide(s State, req Request) (State, Result) {
	var res Result
	s = b.decide(s, &req, &res)
	return s, res
}

// decide is Decide without copying large values.
func (b *LeakyBucket) decide(s State, req *Request, res *Result) State {
	work, at, setBack := b.settled(s, req.Now)
	kept := s
	if setBack {
		kept = State{at, work}
	}
	back := at - req.Now
	// most is the number of units that the bucket may hold with this request: the unit that is
	// leaving and the waiting ones.
	most := b.Queue + 1 - req.Floor
	*res = Result{ResetAfter: b.wait(work) + back, Remaining: b.remaining(work, most, back, req)}
	if req.Cost == 0 {
		res.Allowed, res.At, res.Over = true, at, work
		return kept
	}
	if req.Cost > most {
		res.Reason = Never
		return kept
	}
	own := uint64(req.Cost-1) * b.Den // the last unit leaves after these
	ahead := work + own
	room := uint64(most-1) * b.Den
	retry := int64(0)
	if ahead > room {
		retry = b.wait(ahead-room) + back
	}
	delay := b.delay(ahead)
	if delay > 0 {
		delay += back
	}
	if longest := max(req.MaxWait, 0); req.MaxWait != 0 && delay > longest {
		retry = max(retry, delay-longest)
		if b.delay(own) > longest {
			res.Reason = Never
			return kept
		}
	}
	if retry > 0 {
		res.Reason, res.RetryAfter = Limited, retry
		return kept
	}
	after := ahead + b.Den
	res.Allowed, res.Delay, res.At, res.Over = true, delay, at, after
	res.Remaining = b.remaining(after, most, back, req)
	res.ResetAfter = b.wait(after) + back
	return State{at, after}
}

// delay returns how long a unit waits behind this much work.
func (b *LeakyBucket) delay(ahead uint64) int64 {
	if free := uint64(b.Undelayed) * b.Den; ahead > free {
		return b.wait(ahead - free)
	}
	return 0
}

// remaining returns how many units would be admitted now. It is the largest c with work + (c−1)
// units ≤ most−1 units, if all c units leave in time.
func (b *LeakyBucket) remaining(work uint64, most, back int64, req *Request) int64 {
	if most <= 0 {
		return 0
	}
	room := uint64(most-1) * b.Den
	if req.MaxWait != 0 {
		gone, _ := mulDiv(uint64(max(max(req.MaxWait, 0)-back, 0)), b.Num, 1)
		room = min(room, uint64(b.Undelayed)*b.Den+gone)
	}
	if work > room {
		return 0
	}
	return int64((room-work)/b.Den) + 1
}

// Fresh reports whether the bucket is empty.
func (b *LeakyBucket) Fresh(s State, now int64) bool {
	return now >= s.T && b.decay(s.V, now-s.T) == 0
}

// Cancel gives back a reservation before it departs, if it is the last one in the queue.
func (b *LeakyBucket) Cancel(s State, now int64, c Charge) State {
	if c.Cost == 0 {
		return s
	}
	_, at, _ := b.settled(s, now)
	if at > c.At && b.decay(b.leaves(c), at-c.At-1) == 0 {
		return s
	}
	return b.Settle(s, now, c, 0)
}

// leaves returns the ticks from a charge's At to its departure.
func (b *LeakyBucket) leaves(c Charge) uint64 {
	ahead := c.Over - b.Den
	return ahead - min(ahead, uint64(b.Undelayed)*b.Den)
}

// Settle replaces the cost of a charge by the actual cost, if the charge is the last one in the
// queue. Requests behind it already have their delays, which must not change.
func (b *LeakyBucket) Settle(s State, now int64, c Charge, actual int64) State {
	work, at, setBack := b.settled(s, now)
	if setBack || work == 0 || at < c.At || work != b.decay(c.Over, at-c.At) {
		return s
	}
	actual = min(actual, MaxUnits)
	if actual <= c.Cost {
		return State{at, work - min(work, b.ticks(c.Cost-actual))}
	}
	more := b.ticks(actual - c.Cost)
	return State{at, max(work, min(work+more, b.queue+b.Den))}
}

// Convert returns the state that from's state s becomes under these numbers: the units in the
// queue stay, and leave at the higher of both rates. Waiting units keep their moments, so that
// later ones leave after them.
func (b *LeakyBucket) Convert(from *LeakyBucket, s State, now int64) State {
	work, at, setBack := from.settled(s, now)
	if setBack || !b.faster(from.Pace) {
		return State{at, b.carry(from.Pace, work, MaxTicks)}
	}
	work = b.carry(from.Pace, s.V, uint64(from.Undelayed+1)*from.Den)
	return State{at, b.decay(work, at-s.T)}
}

// await corrects the times of a result that leaves from's state s as it is. Until a charge under
// these numbers, units leave at the higher of both rates.
func (b *LeakyBucket) await(from *LeakyBucket, s State, req *Request, res *Result) {
	if b.faster(from.Pace) {
		return // Convert counts at this rate
	}
	work, at, _ := from.settled(s, req.Now)
	back := at - req.Now
	res.ResetAfter = from.wait(work) + back
	if res.Reason != Limited {
		return
	}
	// until returns when the work has fallen to some ticks of these numbers.
	until := func(most uint64) int64 {
		return from.wait(work-min(work, b.fits(from.Pace, most))) + back
	}
	own := uint64(req.Cost-1) * b.Den
	ahead := b.carry(from.Pace, work, MaxTicks) + own
	res.RetryAfter = 0
	if room := uint64(b.Queue-req.Floor) * b.Den; ahead > room {
		res.RetryAfter = until(room - own)
	}
	delay, longest := b.delay(ahead), max(req.MaxWait, 0)
	switch {
	case req.MaxWait == 0 || delay == 0 || delay+back <= longest:
	case delay <= longest:
		res.RetryAfter = max(res.RetryAfter, delay+back-longest)
	default:
		gone, _ := mulDiv(uint64(longest), b.Num, 1)
		res.RetryAfter = max(res.RetryAfter, until(uint64(b.Undelayed)*b.Den+gone-own))
	}
}

// ConvertCharge converts a charge made under from's numbers to ticks of these numbers.
func (b *LeakyBucket) ConvertCharge(from *LeakyBucket, c Charge) Charge {
	c.Over = mulDivUp(c.Over, b.Den, from.Den)
	return c
}
