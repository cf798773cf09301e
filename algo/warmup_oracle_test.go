package algo_test

import (
	"maps"
	"math/big"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// warmOracle is Guava's SmoothWarmingUp: stored permits, and the time at which
// the next one is free. A price is rounded up to the tick, of which the reduced rate
// gives a whole number each microsecond.
type warmOracle struct {
	burst, debt, warm, cold int64
	each                    *big.Rat // microseconds a permit, at the stable rate
	threshold, most         *big.Rat // permits
	period                  int64

	free    *big.Rat
	stored  *big.Rat
	last    int64
	charges map[int]warmCharge
}

type warmCharge struct {
	cost, acts int64
	end        *big.Rat // when a permit is free after it
}

func newWarmOracle(count, period, burst, debt, warm, cold int64) *warmOracle {
	o := &warmOracle{burst: burst, debt: debt, warm: warm, cold: cold, each: rat(period, count), charges: map[int]warmCharge{}}
	o.threshold = rat(warm, 2)
	o.threshold.Quo(o.threshold, o.each)
	o.most = rat(2*warm, 1+cold)
	o.most.Quo(o.most, o.each)
	o.most.Add(o.most, o.threshold)
	o.free, o.stored = new(big.Rat), o.most
	o.period = max(period, warm, roundUp(new(big.Rat).Mul(rat(burst, 1), o.each)).Int64())
	return o
}

func (o *warmOracle) clone() oracle {
	c := *o
	c.charges = maps.Clone(o.charges)
	return &c
}

// now returns the state as of now: the time of the next free permit, the stored
// ones, the time to reckon from and whether the clock was set back.
func (o *warmOracle) now(now int64) (free, stored *big.Rat, at int64, setBack bool) {
	if now < o.last && o.last-now > o.period {
		owed := new(big.Rat).Sub(o.free, rat(o.last, 1))
		if all := new(big.Rat).Mul(rat(o.burst, 1), o.each); owed.Cmp(all) < 0 {
			owed = all
		}
		return owed.Add(owed, rat(now, 1)), o.stored, now, true
	}
	at = max(now, o.last)
	t := rat(at, 1)
	if t.Cmp(o.free) <= 0 {
		return o.free, o.stored, at, false
	}
	// All permits come back in the warm-up time.
	back := new(big.Rat).Sub(t, o.free)
	back.Mul(back, o.most)
	back.Quo(back, rat(o.warm, 1))
	back.Add(back, o.stored)
	if back.Cmp(o.most) > 0 {
		back = o.most
	}
	return t, back, at, false
}

// price returns how long cost permits take, and what is stored after them.
func (o *warmOracle) price(cost int64, stored *big.Rat) (*big.Rat, *big.Rat) {
	spent := rat(cost, 1)
	if spent.Cmp(stored) > 0 {
		spent = stored
	}
	took := new(big.Rat).Mul(rat(cost, 1), o.each)
	above := new(big.Rat).Sub(stored, o.threshold)
	if above.Sign() > 0 {
		slow := spent
		if slow.Cmp(above) > 0 {
			slow = above
		}
		// The interval falls from cold·each at the most to each at the threshold:
		// the area between above and above−slow, beyond the stable interval.
		mean := new(big.Rat).Sub(above, new(big.Rat).Quo(slow, rat(2, 1)))
		mean.Mul(mean, o.each)
		mean.Mul(mean, rat(o.cold-1, 1))
		mean.Quo(mean, new(big.Rat).Sub(o.most, o.threshold))
		took.Add(took, mean.Mul(mean, slow))
	}
	ticks := rat(1, 1).SetInt(o.each.Denom())
	up := new(big.Rat).SetInt(roundUp(new(big.Rat).Mul(took, ticks)))
	return up.Quo(up, ticks), new(big.Rat).Sub(stored, spent)
}

func (o *warmOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	if a.Cost > 0 && a.Cost > o.burst-a.Floor {
		return false, 0, algo.Never
	}
	free, _, at, _ := o.now(a.Now)
	owed := new(big.Rat).Sub(free, rat(at, 1))
	wait := roundUp(owed).Int64()
	if wait > 0 {
		wait += at - a.Now
	}
	ticks := owed.Mul(owed, new(big.Rat).SetInt(o.each.Denom()))
	if wait > max(a.MaxWait, 0) || ticks.Cmp(rat(algo.MaxTicks/2, 1)) > 0 {
		return false, 0, algo.Limited
	}
	return true, wait, algo.None
}

func (o *warmOracle) commit(a algo.Request, allowed bool, id int) {
	free, stored, at, setBack := o.now(a.Now)
	if setBack {
		o.free, o.last = free, at
	}
	if !allowed {
		return
	}
	c := warmCharge{a.Cost, roundUp(free).Int64(), free}
	if a.Cost > 0 {
		took, left := o.price(a.Cost, stored)
		o.free, o.stored, o.last = took.Add(took, free), left, at
		c.end = o.free
	}
	o.charges[id] = c
}

func (o *warmOracle) remaining(a algo.Request) int64 {
	if free, _, at, _ := o.now(a.Now); free.Cmp(rat(at, 1)) > 0 || a.Floor > o.burst {
		return 0
	}
	return o.burst - a.Floor
}

func (o *warmOracle) fresh(now int64) bool {
	free, stored, at, _ := o.now(now)
	return at == now && free.Cmp(rat(now, 1)) <= 0 && stored.Cmp(o.most) == 0
}

// reduce takes some time from what is owed.
func (o *warmOracle) reduce(free *big.Rat, at int64, by *big.Rat) {
	free = new(big.Rat).Sub(free, by)
	if t := rat(at, 1); free.Cmp(t) < 0 {
		free = t
	}
	o.free, o.last = free, at
}

func (o *warmOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	free, stored, at, _ := o.now(now)
	if actual <= c.cost {
		o.stored = stored
		o.reduce(free, at, new(big.Rat).Mul(rat(c.cost-actual, 1), o.each))
		return
	}
	took, left := o.price(actual-c.cost, stored)
	most := new(big.Rat).Mul(rat(o.burst+o.debt, 1), o.each)
	most.Add(most, rat(at, 1))
	took.Add(took, free)
	if took.Cmp(most) > 0 {
		took = most
	}
	if took.Cmp(free) <= 0 { // all is forgiven
		took, left = free, stored
	}
	o.free, o.stored, o.last = took, left, at
}

func (o *warmOracle) cancel(now int64, id int) {
	c := o.charges[id]
	free, stored, at, setBack := o.now(now)
	if c.cost == 0 || setBack || at > c.acts || free.Cmp(rat(at, 1)) <= 0 || free.Cmp(c.end) != 0 {
		return
	}
	// It had stored what it spent besides; all warm, that is not known, and what is
	// given back is that of the warmest.
	before := rat(c.cost, 1)
	if before.Add(before, stored); before.Cmp(o.most) > 0 {
		before = o.most
	}
	took, _ := o.price(c.cost, before)
	if stored.Sign() == 0 {
		before, took = stored, new(big.Rat).Mul(rat(c.cost, 1), o.each)
	}
	o.stored = before
	o.reduce(free, at, took)
}

func warmBucket(c *chooser) (algo.Params, oracle, questions) {
	count, period := rateNumbers(c)
	p := algo.NewPace(count, period)
	burst := c.one(1, 2, count, 1+c.below(20))
	warm := c.one(1000, 4_000_000, 1+c.below(100), 1+c.below(20*period/count+1))
	cold := c.one(2, 3, 10, 2+c.below(99))
	for !p.Fits(uint64(4 * burst)) {
		burst = max(burst/2, 1)
	}
	for !algo.WarmFits(p, warm, cold) {
		warm = max(warm/2, 1)
	}
	debt := burst
	o := newWarmOracle(count, period, burst, debt, warm, cold)
	return algo.Params{
			Kind: algo.KindWarmBucket, Capacity: burst,
			Warm: algo.NewWarmBucket(p, period, burst, debt, warm, cold),
		}, o, questions{
			pace: pace{max(1, period/count), o.period}, capacity: burst,
			floors: true, waits: true, ends: true, back: 5 * o.period,
		}
}

func TestWarmBucketEqualsOracle(t *testing.T) {
	law(t, 150, func(t *testing.T, c *chooser) { agree(t, c, warmBucket) })
}

func FuzzWarmBucket(f *testing.F) { fuzz(f, warmBucket) }
