package laws

import (
	"math/big"

	"github.com/sluicehq/sluice"
)

// warmBucket is a token bucket with a cold start: Guava's ramp, from the stable
// interval at half the stored units to cold times that when all are stored.
type warmBucket struct {
	rate        *big.Rat
	burst, debt int64
	stored      *big.Rat // the most units that are stored
	slow        *big.Rat // those of them that are slow
	steep       *big.Rat // microseconds by which each of these is slower than the next
	cooling     *big.Rat // units that are stored in a microsecond of idleness: all in the time to warm up
	at          int64
	owed        *big.Rat // microseconds
	warm        *big.Rat // units taken from the stored ones
}

func newWarmBucket(b sluice.TokenBucket) oracle {
	w := warmBucket{
		rate: perMicro(b.Rate), burst: b.Burst, debt: b.Debt, owed: new(big.Rat), warm: new(big.Rat),
	}
	if w.burst == 0 {
		w.burst = b.Rate.Count()
	}
	if w.debt == 0 {
		w.debt = w.burst
	}
	cold := b.ColdFactor
	if cold == 0 {
		cold = 3
	}
	stable := new(big.Rat).Inv(w.rate)
	warm := rat(b.WarmUp.Microseconds())
	threshold := mul(new(big.Rat).Quo(warm, stable), big.NewRat(1, 2))
	w.slow = mul(new(big.Rat).Quo(warm, stable), big.NewRat(2, 1+cold))
	w.stored = add(threshold, w.slow)
	w.cooling = new(big.Rat).Quo(w.stored, warm)
	w.steep = new(big.Rat).Quo(mul(stable, rat(cold-1)), w.slow)
	return w
}

func (b warmBucket) as(now int64) warmBucket {
	if now <= b.at {
		return b
	}
	passed := rat(now - b.at)
	idle := positive(sub(passed, b.owed))
	b.owed = positive(sub(b.owed, passed))
	b.warm = positive(sub(b.warm, mul(idle, b.cooling)))
	b.at = now
	return b
}

// take returns the limiter after cost units: they take the area under the ramp,
// the slow part rounded up to what the rate gives in a microsecond.
func (b warmBucket) take(cost int64) warmBucket {
	from := positive(sub(b.slow, b.warm))
	b.warm = smaller(b.stored, add(b.warm, rat(cost)))
	to := positive(sub(b.slow, b.warm))
	extra := mul(mul(b.steep, sub(mul(from, from), mul(to, to))), big.NewRat(1, 2))
	// A tick is the least time between two multiples of microseconds and units.
	tick := new(big.Rat).SetFrac(big.NewInt(1), b.rate.Num())
	ticks := new(big.Rat).Quo(extra, tick)
	n, m := new(big.Int).QuoRem(ticks.Num(), ticks.Denom(), new(big.Int))
	if m.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	extra = mul(new(big.Rat).SetInt(n), tick)
	b.owed = add(b.owed, add(extra, new(big.Rat).Quo(rat(cost), b.rate)))
	return b
}

// reset returns the time until nothing is owed and the limiter is cold.
func (b warmBucket) reset() int64 {
	return up(add(b.owed, new(big.Rat).Quo(b.warm, b.cooling)))
}

func (b warmBucket) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := b
	b = b.as(a.now)
	back := b.at - a.now
	remaining, wait := int64(0), int64(0)
	if b.owed.Sign() == 0 {
		remaining = b.burst - a.floor
	} else {
		wait = up(b.owed) + back
	}
	reset := b.reset() + back
	switch {
	case a.cost > 0 && a.cost > b.burst-a.floor:
		return never(remaining, reset), charge{}, kept
	case wait > a.longest():
		return denied(sluice.ReasonLimited, remaining, wait-a.longest(), reset), charge{}, kept
	case a.cost == 0:
		return allowed(remaining, wait, reset), charge{ask: a, at: b.at, over: b.owed, delay: wait}, kept
	}
	next := b.take(a.cost)
	return allowed(0, wait, next.reset()+back), charge{ask: a, at: b.at, over: next.owed, delay: wait}, next
}

// cancel gives back a reservation that nobody stands behind.
func (b warmBucket) cancel(now int64, c charge) oracle {
	kept := b
	b = b.as(now)
	acts := max(c.at, c.now+c.delay)
	left := sub(c.over, rat(b.at-c.at))
	if c.cost == 0 || b.at > acts || b.owed.Sign() == 0 || b.owed.Cmp(left) != 0 {
		return kept
	}
	before := b
	before.warm, before.owed = positive(sub(b.warm, rat(c.cost))), new(big.Rat)
	price := before.take(c.cost).owed
	if b.warm.Cmp(b.stored) == 0 { // how cold it was is not known any more
		before.warm, price = b.warm, new(big.Rat).Quo(rat(c.cost), b.rate)
	}
	b.owed, b.warm = positive(sub(b.owed, price)), before.warm
	return b
}

func (b warmBucket) settle(now int64, c charge, actual int64) oracle {
	b = b.as(now)
	if actual <= c.cost {
		b.owed = positive(sub(b.owed, new(big.Rat).Quo(rat(c.cost-actual), b.rate)))
		return b
	}
	next := b.take(actual - c.cost)
	next.owed = smaller(next.owed, new(big.Rat).Quo(rat(b.burst+b.debt), b.rate))
	if less(b.owed, next.owed) {
		return next
	}
	return b
}

func (b warmBucket) fresh(now int64) bool {
	if now < b.at {
		return false
	}
	b = b.as(now)
	return b.owed.Sign() == 0 && b.warm.Sign() == 0
}

func (b warmBucket) same(o oracle) bool {
	c := o.(warmBucket)
	return b.at == c.at && b.owed.Cmp(c.owed) == 0 && b.warm.Cmp(c.warm) == 0
}
