package oracle

import "math/big"

// WarmBucket is a token bucket that starts cold, as Guava's SmoothWarmingUp. It keeps the stored permits,
// and the time at which the next permit is free. Prices are rounded up to ticks. A microsecond has as
// many ticks as the reduced rate has permits.
type WarmBucket struct {
	burst, debt, warm, cold int64
	each                    *big.Rat // microseconds per permit at the stable rate
	threshold, most         *big.Rat // permits
	period                  int64    // how far the clock may go back

	free   *big.Rat
	stored *big.Rat
	last   int64
}

// NewWarmBucket returns a cold bucket. It reaches the stable rate after warm microseconds of steady use.
// A cold permit takes cold times as long as a permit at the stable rate.
func NewWarmBucket(count, period, burst, debt, warm, cold int64) WarmBucket {
	b := WarmBucket{burst: burst, debt: debt, warm: warm, cold: cold, each: Rat(period, count)}
	b.threshold = quo(Rat(warm, 2), b.each)
	b.most = add(b.threshold, quo(Rat(2*warm, 1+cold), b.each))
	b.free, b.stored = new(big.Rat), b.most
	b.period = max(period, warm, Up(mul(whole(burst), b.each)))
	return b
}

// Period returns how far the clock may go back before the whole burst counts as owed.
func (b WarmBucket) Period() int64 { return b.period }

// at returns the bucket at a time, and whether the clock was set back.
func (b WarmBucket) at(now int64) (_ WarmBucket, setBack bool) {
	if now < b.last && b.last-now > b.period {
		owed := larger(sub(b.free, whole(b.last)), mul(whole(b.burst), b.each))
		b.free, b.last = add(owed, whole(now)), now
		return b, true
	}
	if now <= b.last {
		return b, false
	}
	b.last = now
	t := whole(b.last)
	if less(b.free, t) {
		// All permits come back in the warm-up time.
		back := quo(mul(sub(t, b.free), b.most), whole(b.warm))
		b.stored, b.free = smaller(b.most, add(back, b.stored)), t
	}
	return b, false
}

// price returns how long cost permits take, and how many are stored after them.
func (b WarmBucket) price(cost int64, stored *big.Rat) (took, left *big.Rat) {
	spent := smaller(whole(cost), stored)
	took = mul(whole(cost), b.each)
	if above := sub(stored, b.threshold); above.Sign() > 0 {
		// The interval falls from cold·each at most stored permits to each at the threshold. The price
		// is the area below that line, above the stable interval.
		slow := smaller(spent, above)
		mean := mul(mul(sub(above, quo(slow, whole(2))), b.each), whole(b.cold-1))
		took = add(took, mul(quo(mean, sub(b.most, b.threshold)), slow))
	}
	ticks := new(big.Rat).SetInt(b.each.Denom())
	return quo(new(big.Rat).SetInt(ceil(mul(took, ticks))), ticks), sub(stored, spent)
}

// Allows implements State.
func (b WarmBucket) Allows(r Request) (bool, int64, Reason) {
	need := r.Cost
	if ticks := mul(whole(r.Cost), new(big.Rat).SetInt(b.each.Num())); r.Overdraw && r.Cost <= mostUnits && !less(whole(mostTicks/2), ticks) {
		need = min(need, 1)
	}
	if r.Cost > 0 && need > b.burst-r.Floor {
		return false, 0, Never
	}
	b, _ = b.at(r.Now)
	owed := sub(b.free, whole(b.last))
	wait := Up(owed)
	if wait > 0 {
		wait += b.last - r.Now
	}
	ticks := mul(owed, new(big.Rat).SetInt(b.each.Denom()))
	if wait > r.longest() || less(whole(mostTicks/2), ticks) {
		return false, 0, Limited
	}
	return true, wait, None
}

// Take implements State.
func (b WarmBucket) Take(r Request, allowed bool) (State, Charge) {
	now, setBack := b.at(r.Now)
	if setBack {
		b.free, b.last = now.free, now.last
	}
	c := Charge{Cost: r.Cost, Floor: r.Floor, At: now.last, Act: whole(Up(now.free)), End: now.free}
	if !allowed && r.Debit && r.Cost > 0 {
		return b.Settle(r.Now, Charge{}, min(r.Cost, mostUnits)), c
	}
	if allowed && r.Cost > 0 {
		took, left := b.price(r.Cost, now.stored)
		b.free, b.stored, b.last = add(took, now.free), left, now.last
		c.End = b.free
	}
	return b, c
}

// Remaining implements State.
func (b WarmBucket) Remaining(r Request) int64 {
	if b, _ = b.at(r.Now); less(whole(b.last), b.free) || r.Floor > b.burst {
		return 0
	}
	return b.burst - r.Floor
}

// Fresh implements State.
func (b WarmBucket) Fresh(now int64) bool {
	n, _ := b.at(now)
	return n.last == now && n.free.Cmp(whole(now)) <= 0 && n.stored.Cmp(b.most) == 0
}

// reduce shortens what is owed.
func (b WarmBucket) reduce(by *big.Rat) WarmBucket {
	b.free = larger(whole(b.last), sub(b.free, by))
	return b
}

// Settle implements State.
func (b WarmBucket) Settle(now int64, c Charge, actual int64) State {
	b, _ = b.at(now)
	if actual <= c.Cost {
		return b.reduce(mul(whole(c.Cost-actual), b.each))
	}
	took, left := b.price(actual-c.Cost, b.stored)
	most := add(mul(whole(b.burst+b.debt), b.each), whole(b.last))
	if took = smaller(most, add(took, b.free)); less(b.free, took) {
		b.free, b.stored = took, left
	}
	return b
}

// Cancel implements State.
func (b WarmBucket) Cancel(now int64, c Charge) State {
	n, setBack := b.at(now)
	if c.Cost == 0 || setBack || less(c.Act, whole(n.last)) || n.free.Cmp(whole(n.last)) <= 0 || n.free.Cmp(c.End) != 0 {
		return b
	}
	// Before the charge, its permits were stored too. If none is stored now, that number is unknown, and
	// the charge gives back the price at the stable rate.
	stored := smaller(b.most, add(whole(c.Cost), n.stored))
	took, _ := b.price(c.Cost, stored)
	if n.stored.Sign() == 0 {
		stored, took = n.stored, mul(whole(c.Cost), b.each)
	}
	n.stored = stored
	return n.reduce(took)
}

// Equal implements State.
func (b WarmBucket) Equal(s State) bool {
	o := s.(WarmBucket)
	return b.last == o.last && b.free.Cmp(o.free) == 0 && b.stored.Cmp(o.stored) == 0
}
