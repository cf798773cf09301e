package oracle

import "math/big"

// Leaky is a leaky bucket. It keeps the time at which its last unit has left.
type Leaky struct {
	queue, undelayed int64
	each             *big.Rat // microseconds between two departures
	period           int64    // how far the clock may go back

	empty *big.Rat
	last  int64
}

// NewLeaky returns an empty bucket from which count units leave per period. Up to queue units may wait in
// it. The first undelayed of these units pass without delay.
func NewLeaky(count, period, queue, undelayed int64) Leaky {
	l := Leaky{queue: queue, undelayed: undelayed, each: Rat(period, count), empty: new(big.Rat)}
	l.period = max(period, Up(mul(whole(queue+1), l.each)))
	return l
}

// Period returns how far the clock may go back before the bucket counts as full.
func (l Leaky) Period() int64 { return l.period }

// at returns the bucket at a time, and whether the clock was set back.
func (l Leaky) at(now int64) (_ Leaky, setBack bool) {
	if now < l.last && l.last-now > l.period {
		left := larger(sub(l.empty, whole(l.last)), mul(whole(l.queue+1), l.each))
		l.empty, l.last = add(left, whole(now)), now
		return l, true
	}
	if now <= l.last {
		return l, false
	}
	l.last = now
	l.empty = larger(l.empty, whole(l.last))
	return l, false
}

// ahead returns the units ahead of the last unit of a request.
func (l Leaky) ahead(cost int64) *big.Rat {
	return add(quo(sub(l.empty, whole(l.last)), l.each), whole(max(cost-1, 0)))
}

// delay returns how long a unit waits with this many units ahead.
func (l Leaky) delay(ahead *big.Rat) int64 {
	late := sub(ahead, whole(l.undelayed))
	if late.Sign() <= 0 {
		return 0
	}
	return Up(mul(late, l.each))
}

// Allows implements State.
func (l Leaky) Allows(r Request) (bool, int64, Reason) {
	if r.Cost == 0 {
		return true, 0, None
	}
	room := l.queue - r.Floor
	if r.Cost-1 > room || r.MaxWait != 0 && l.delay(whole(r.Cost-1)) > r.longest() {
		return false, 0, Never
	}
	l, _ = l.at(r.Now)
	ahead := l.ahead(r.Cost)
	delay := l.delay(ahead)
	if delay > 0 {
		delay += l.last - r.Now
	}
	if less(whole(room), ahead) || r.MaxWait != 0 && delay > r.longest() {
		return false, 0, Limited
	}
	return true, delay, None
}

// Take implements State.
func (l Leaky) Take(r Request, allowed bool) (State, Charge) {
	now, setBack := l.at(r.Now)
	if setBack {
		l = now
	}
	c := Charge{Cost: r.Cost, Floor: r.Floor, At: now.last, End: l.empty}
	c.Act = whole(c.At + now.delay(now.ahead(r.Cost)))
	if allowed && r.Cost > 0 {
		l = now
		l.empty = add(mul(whole(r.Cost), l.each), l.empty)
		c.End = l.empty
	}
	return l, c
}

// Remaining implements State.
func (l Leaky) Remaining(r Request) int64 {
	return largest(l.queue+1, func(cost int64) bool {
		r.Cost = cost
		ok, _, _ := l.Allows(r)
		return ok
	})
}

// Fresh implements State.
func (l Leaky) Fresh(now int64) bool { return now >= l.last && l.empty.Cmp(whole(now)) <= 0 }

// Cancel implements State.
func (l Leaky) Cancel(now int64, c Charge) State {
	if n, _ := l.at(now); c.Cost == 0 || less(c.Act, whole(n.last)) {
		return l
	}
	return l.Settle(now, c, 0)
}

// Settle implements State. Only the charge that is last in the bucket can change.
func (l Leaky) Settle(now int64, c Charge, actual int64) State {
	n, setBack := l.at(now)
	at := whole(n.last)
	if setBack || n.last < c.At || n.empty.Cmp(at) <= 0 || n.empty.Cmp(c.End) != 0 {
		return l
	}
	empty := add(mul(whole(actual-c.Cost), l.each), n.empty)
	if actual > c.Cost {
		full := add(mul(whole(l.queue+1), l.each), at)
		empty = larger(n.empty, smaller(full, empty))
	}
	n.empty = larger(at, empty)
	return n
}

// Equal implements State.
func (l Leaky) Equal(s State) bool {
	o := s.(Leaky)
	return l.last == o.last && l.empty.Cmp(o.empty) == 0
}
