package laws

import (
	"math/big"

	"github.com/sluicehq/sluice"
)

// leaky is a leaky bucket: the units in it as of a time.
type leaky struct {
	rate             *big.Rat
	queue, undelayed int64
	at               int64
	work             *big.Rat
}

func newLeaky(b sluice.LeakyBucket) oracle {
	return leaky{rate: perMicro(b.Rate), queue: b.Queue, undelayed: b.Undelayed, work: new(big.Rat)}
}

func (l leaky) as(now int64) leaky {
	if now > l.at {
		l.work = positive(sub(l.work, mul(rat(now-l.at), l.rate)))
		l.at = now
	}
	return l
}

// delay returns how long one waits with so many units ahead.
func (l leaky) delay(ahead *big.Rat, back int64) int64 {
	if late := sub(ahead, rat(l.undelayed)); late.Sign() > 0 {
		return after(late, l.rate) + back
	}
	return 0
}

func (l leaky) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := l
	l = l.as(a.now)
	back := l.at - a.now
	reset := after(l.work, l.rate) + back
	// fits is how many units may be ahead of the last one, for it to wait no longer than it may.
	fits := rat(l.queue - a.floor)
	if a.wait != 0 {
		fits = smaller(fits, add(rat(l.undelayed), mul(rat(max(0, a.longest()-back)), l.rate)))
	}
	remaining := int64(0)
	if l.queue >= a.floor && !less(fits, l.work) {
		remaining = down(sub(fits, l.work)) + 1
	}
	if a.cost == 0 {
		return allowed(remaining, 0, reset), charge{ask: a, at: l.at, over: l.work}, kept
	}
	own := rat(a.cost - 1)
	if a.cost-1 > l.queue-a.floor || a.wait != 0 && l.delay(own, 0) > a.longest() {
		return never(remaining, reset), charge{}, kept
	}
	ahead := add(l.work, own)
	delay := l.delay(ahead, back)
	retry := int64(0)
	if over := sub(ahead, rat(l.queue-a.floor)); over.Sign() > 0 {
		retry = after(over, l.rate) + back
	}
	if a.wait != 0 {
		retry = max(retry, delay-a.longest())
	}
	if retry > 0 {
		return denied(sluice.ReasonLimited, remaining, retry, reset), charge{}, kept
	}
	l.work = add(l.work, rat(a.cost))
	return allowed(remaining-a.cost, delay, after(l.work, l.rate)+back),
		charge{ask: a, at: l.at, over: l.work, delay: delay}, l
}

func (l leaky) cancel(now int64, c charge) oracle {
	kept := l
	l = l.as(now)
	leaves := positive(sub(c.over, rat(1+l.undelayed)))
	if c.cost == 0 || l.at > c.at && sub(leaves, mul(rat(l.at-c.at-1), l.rate)).Sign() <= 0 {
		return kept
	}
	return kept.settle(now, c, 0)
}

// settle changes a charge that nobody stands behind.
func (l leaky) settle(now int64, c charge, actual int64) oracle {
	kept := l
	l = l.as(now)
	left := positive(sub(c.over, mul(rat(l.at-c.at), l.rate)))
	if l.work.Sign() == 0 || l.at < c.at || l.work.Cmp(left) != 0 {
		return kept
	}
	changed := positive(add(l.work, rat(actual-c.cost)))
	if actual > c.cost {
		changed = larger(l.work, smaller(changed, rat(l.queue+1)))
	}
	l.work = changed
	return l
}

func (l leaky) fresh(now int64) bool { return now >= l.at && l.as(now).work.Sign() == 0 }

func (l leaky) same(o oracle) bool {
	m := o.(leaky)
	return l.at == m.at && l.work.Cmp(m.work) == 0
}
