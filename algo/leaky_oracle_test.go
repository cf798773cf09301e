package algo_test

import (
	"maps"
	"math/big"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// leakyOracle knows when the last unit will have left.
type leakyOracle struct {
	queue, undelayed int64
	each             *big.Rat // microseconds between departures
	period           int64

	empty   *big.Rat
	last    int64
	charges map[int]leakyCharge
}

type leakyCharge struct {
	cost, at int64
	ahead    *big.Rat // units that left before its last one
	empty    *big.Rat // when the bucket would have been empty after it
}

func (o *leakyOracle) clone() oracle {
	c := *o
	c.charges = maps.Clone(o.charges)
	return &c
}

// now returns when the bucket will be empty, the time to reckon from and whether
// the clock was set back.
func (o *leakyOracle) now(now int64) (*big.Rat, int64, bool) {
	if now < o.last && o.last-now > o.period {
		left := new(big.Rat).Sub(o.empty, rat(o.last, 1))
		if all := new(big.Rat).Mul(rat(o.queue+1, 1), o.each); left.Cmp(all) < 0 {
			left = all
		}
		return left.Add(left, rat(now, 1)), now, true
	}
	at := max(now, o.last)
	if t := rat(at, 1); o.empty.Cmp(t) < 0 {
		return t, at, false
	}
	return o.empty, at, false
}

// work returns the units in the bucket.
func (o *leakyOracle) work(now int64) (*big.Rat, int64) {
	empty, at, _ := o.now(now)
	w := new(big.Rat).Sub(empty, rat(at, 1))
	return w.Quo(w, o.each), at
}

// delay returns how long one waits with this many units ahead.
func (o *leakyOracle) delay(ahead *big.Rat) int64 {
	d := new(big.Rat).Sub(ahead, rat(o.undelayed, 1))
	if d.Sign() <= 0 {
		return 0
	}
	return roundUp(d.Mul(d, o.each)).Int64()
}

func (o *leakyOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	if a.Cost == 0 {
		return true, 0, algo.None
	}
	room := o.queue - a.Floor
	if a.Cost-1 > room || a.MaxWait != 0 && o.delay(rat(a.Cost-1, 1)) > max(a.MaxWait, 0) {
		return false, 0, algo.Never
	}
	ahead, at := o.work(a.Now)
	ahead.Add(ahead, rat(a.Cost-1, 1))
	delay := o.delay(ahead)
	if delay > 0 {
		delay += at - a.Now
	}
	if ahead.Cmp(rat(room, 1)) > 0 || a.MaxWait != 0 && delay > max(a.MaxWait, 0) {
		return false, 0, algo.Limited
	}
	return true, delay, algo.None
}

func (o *leakyOracle) commit(a algo.Request, allowed bool, id int) {
	empty, at, setBack := o.now(a.Now)
	if setBack {
		o.empty, o.last = empty, at
	}
	if !allowed {
		return
	}
	ahead, _ := o.work(a.Now)
	if a.Cost > 0 {
		ahead.Add(ahead, rat(a.Cost-1, 1))
		own := new(big.Rat).Mul(rat(a.Cost, 1), o.each)
		o.empty, o.last = own.Add(own, empty), at
	}
	o.charges[id] = leakyCharge{a.Cost, at, ahead, o.empty}
}

func (o *leakyOracle) remaining(a algo.Request) int64 {
	return largest(o.queue+1, func(cost int64) bool {
		b := a
		b.Cost = cost
		ok, _, _ := o.ask(b)
		return ok
	})
}

func (o *leakyOracle) fresh(now int64) bool {
	return now >= o.last && o.empty.Cmp(rat(now, 1)) <= 0
}

func (o *leakyOracle) cancel(now int64, id int) {
	c := o.charges[id]
	if _, at, _ := o.now(now); c.cost > 0 && at <= c.at+o.delay(c.ahead) {
		o.settle(now, id, 0)
	}
}

func (o *leakyOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	empty, at, setBack := o.now(now)
	if setBack || at < c.at || empty.Cmp(rat(at, 1)) <= 0 || empty.Cmp(c.empty) != 0 {
		return
	}
	change := new(big.Rat).Mul(rat(actual-c.cost, 1), o.each)
	change.Add(change, empty)
	most := new(big.Rat).Mul(rat(o.queue+1, 1), o.each)
	most.Add(most, rat(at, 1))
	switch {
	case actual > c.cost && change.Cmp(most) > 0:
		change = most
		if empty.Cmp(most) > 0 {
			change = empty
		}
	case change.Cmp(rat(at, 1)) < 0:
		change = rat(at, 1)
	}
	o.empty, o.last = change, at
}

func leaky(c *chooser) (algo.Params, oracle, questions) {
	count, period := rateNumbers(c)
	queue := c.one(0, 1, c.below(10), c.below(count+1))
	undelayed := c.one(0, c.below(queue+1), queue)
	for !algo.NewPace(count, period).Fits(uint64(queue + 1)) {
		queue /= 2
	}
	undelayed = min(undelayed, queue)
	each := rat(period, count)
	full := roundUp(new(big.Rat).Mul(rat(queue+1, 1), each)).Int64()
	o := &leakyOracle{
		queue: queue, undelayed: undelayed, each: each, period: max(period, full),
		empty: new(big.Rat), charges: map[int]leakyCharge{},
	}
	p := algo.Params{
		Kind: algo.KindLeaky, Capacity: queue + 1,
		Leaky: algo.NewLeakyBucket(algo.NewPace(count, period), period, queue, undelayed),
	}
	return p, o, questions{
		pace: pace{max(1, period/count), o.period}, capacity: queue + 1,
		floors: true, waits: true, ends: true, back: 5 * o.period,
	}
}

func TestLeakyEqualsOracle(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) { agree(t, c, leaky) })
}

func FuzzLeaky(f *testing.F) { fuzz(f, leaky) }
