package laws

import (
	"math/big"

	"github.com/sluicehq/sluice"
)

// bucket is a token bucket: how many tokens it misses as of a time.
type bucket struct {
	rate        *big.Rat
	burst, debt int64
	at          int64
	missing     *big.Rat
	// lent says that the level does not tell when the last reservation acts:
	// a part of one came back, or one waits for its floor.
	lent bool
}

func newBucket(b sluice.TokenBucket) oracle {
	if b.Burst == 0 {
		b.Burst = b.Rate.Count()
	}
	if b.Debt == 0 {
		b.Debt = b.Burst
	}
	return bucket{rate: perMicro(b.Rate), burst: b.Burst, debt: b.Debt, missing: new(big.Rat)}
}

// as returns the bucket as of a time, or of its own if the clock went back.
func (b bucket) as(now int64) bucket {
	if now <= b.at {
		return b
	}
	b.missing = positive(sub(b.missing, mul(rat(now-b.at), b.rate)))
	b.at = now
	b.lent = b.lent && b.missing.Sign() > 0
	return b
}

func (b bucket) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := b
	b = b.as(a.now)
	back := b.at - a.now
	room := rat(max(0, b.burst-a.floor))
	remaining := down(positive(sub(room, b.missing)))
	reset := after(b.missing, b.rate) + back
	if a.cost == 0 {
		room = rat(b.burst)
	} else if a.cost > b.burst-a.floor {
		return never(remaining, reset), charge{}, kept
	}
	next := b
	next.missing = add(b.missing, rat(a.cost))
	c := charge{ask: a, at: b.at, over: positive(sub(next.missing, room))}
	if c.over.Sign() > 0 {
		c.delay = after(c.over, b.rate) + back
	}
	switch {
	case c.delay > a.longest():
		return denied(sluice.ReasonLimited, remaining, c.delay-a.longest(), reset), charge{}, kept
	case a.cost == 0:
		return allowed(remaining, c.delay, reset), c, kept
	}
	next.lent = b.lent || c.delay > 0 && a.floor > 0
	return allowed(remaining-a.cost, c.delay, after(next.missing, b.rate)+back), c, next
}

// gain returns the bucket with so many more tokens.
func (b bucket) gain(units *big.Rat) bucket {
	b.missing = positive(sub(b.missing, units))
	b.lent = b.lent && b.missing.Sign() > 0
	return b
}

// cancel gives back what no later reservation stands on. What the charge left
// missing has become less since; what is missing beyond that was taken by later ones.
func (b bucket) cancel(now int64, c charge) oracle {
	kept := b
	b = b.as(now)
	acted := b.at > c.at && sub(c.over, mul(rat(b.at-c.at-1), b.rate)).Sign() <= 0
	if c.cost == 0 || acted || b.lent && c.over.Sign() == 0 {
		return kept
	}
	if b.at < c.at {
		return kept // charged later than anything the bucket knows
	}
	left := rat(b.burst)
	if c.over.Sign() > 0 {
		left = add(left, sub(c.over, rat(c.floor)))
	}
	give := rat(c.cost)
	if later := sub(b.missing, sub(left, mul(rat(b.at-c.at), b.rate))); later.Sign() > 0 {
		if give = sub(give, later); b.lent || give.Sign() <= 0 {
			return kept
		}
		b.lent = true
	}
	return b.gain(give)
}

func (b bucket) settle(now int64, c charge, actual int64) oracle {
	b = b.as(now)
	if actual <= c.cost {
		b.lent = b.lent || actual < c.cost && less(rat(b.burst), b.missing)
		return b.gain(rat(c.cost - actual))
	}
	most := larger(b.missing, rat(b.burst+b.debt))
	b.missing = smaller(most, add(b.missing, rat(actual-c.cost)))
	return b
}

func (b bucket) fresh(now int64) bool { return now >= b.at && b.as(now).missing.Sign() == 0 }

func (b bucket) same(o oracle) bool {
	c := o.(bucket)
	return b.at == c.at && b.lent == c.lent && b.missing.Cmp(c.missing) == 0
}
