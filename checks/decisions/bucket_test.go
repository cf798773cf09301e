package decisions

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
)

// awkward are rates that other limiters count inexactly, and the rates at the ends of what
// is accepted.
var awkward = []sluice.Rate{
	sluice.PerMinute(100),
	sluice.PerSecond(5),
	sluice.Per(1, 30*24*time.Hour),
	sluice.PerDay(123_457),
	sluice.PerDay(1 << 30),
	sluice.Per(100<<30, 30*24*time.Hour),
	sluice.PerSecond(100_000_000),
	sluice.Per(1, time.Microsecond),
	sluice.Per(7, 13*time.Microsecond),
	sluice.Per(13, 7*time.Microsecond),
	sluice.Per(999_983, 86_399_999_983*time.Microsecond),
	sluice.Per(1, 100*365*24*time.Hour),
	sluice.Per(1<<53-1, 1000*time.Microsecond),
	sluice.Per(1<<53-1, 100*365*24*time.Hour-time.Microsecond),
	sluice.Per(1<<53-111, time.Microsecond),
}

// rate makes up a rate: an awkward one, a small one or any.
func (d *duel) rate() sluice.Rate {
	switch d.rnd.IntN(3) {
	case 0:
		return awkward[d.rnd.IntN(len(awkward))]
	case 1:
		return sluice.Per(1+d.rnd.Int64N(12), time.Duration(1+d.rnd.Int64N(60))*time.Microsecond)
	default:
		return sluice.Per(d.upTo(1<<53), time.Duration(d.upTo(100*365*86_400_000_000))*time.Microsecond)
	}
}

// units makes up a count of units for a rate: small, near its count, or any.
func (d *duel) units(r sluice.Rate) int64 {
	return d.one(1, 2, 5, 20, r.Count(), 2*r.Count(), 1+d.rnd.Int64N(20), d.upTo(1<<53-2), 1<<52, 1<<53-2)
}

func tokenBucket(d *duel) sluice.Algorithm {
	b := sluice.TokenBucket{Rate: d.rate()}
	if d.rnd.IntN(4) > 0 {
		b.Burst = d.units(b.Rate)
	}
	if d.rnd.IntN(2) > 0 {
		b.Debt = d.units(b.Rate)
	}
	return b
}

func warmBucket(d *duel) sluice.Algorithm {
	b := tokenBucket(d).(sluice.TokenBucket)
	b.WarmUp = time.Duration(d.one(1000, 1_000_000, 4_000_003, 1000+d.upTo(86_400_000_000-1000))) * time.Microsecond
	b.ColdFactor = d.one(0, 2, 3, 10, 100, 2+d.rnd.Int64N(99))
	return b
}

func leakyBucket(d *duel) sluice.Algorithm {
	b := sluice.LeakyBucket{Rate: d.rate(), Queue: d.units(d.rate()) - 1}
	b.Undelayed = min(b.Queue, d.one(0, 0, 1, b.Queue/2, b.Queue))
	return b
}

func anyOf(makers ...func(d *duel) sluice.Algorithm) func(d *duel) sluice.Algorithm {
	return func(d *duel) sluice.Algorithm { return makers[d.rnd.IntN(len(makers))](d) }
}

func fixedWindow(d *duel) sluice.Algorithm {
	r := d.rate()
	return sluice.FixedWindow{Rate: sluice.Per(min(r.Count(), 1<<52), r.Period())}
}

// TestBucketsEqualMemory: whatever is requested and ended, in whichever order and with
// whichever clock, the decisions equal the decisions of the memory store in each field.
func TestBucketsEqualMemory(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for name, make := range map[string]func(d *duel) sluice.Algorithm{
		"token bucket":   tokenBucket,
		"warm bucket":    warmBucket,
		"leaky bucket":   leakyBucket,
		"all and others": anyOf(tokenBucket, warmBucket, leakyBucket, fixedWindow),
	} {
		t.Run(name, func(t *testing.T) { a.duels(t, make) })
	}
}

// TestBucketsExpire: a state is kept until it equals a fresh one, and hardly longer.
func TestBucketsExpire(t *testing.T) {
	a := newArena(t)
	checked := 0
	for seed := range uint64(300) {
		d := a.duel(t, seed, anyOf(tokenBucket, warmBucket, leakyBucket))
		d.limits, d.keys = d.limits[:1], d.keys[:1]
		for range d.rnd.IntN(6) {
			d.step()
		}
		r := sluice.Request{Limit: d.limits[0], Key: d.keys[0], Cost: 1, MaxWait: time.Duration(d.one(0, 1<<40))}
		before := a.clock(t)
		got := d.decide(r)
		after := a.clock(t)
		if left := got.ResetAfter; got.Allowed && left < 1e15*time.Microsecond {
			least, most := a.lifetime(t, fmt.Sprintf("duel-%d{*", a.count), before, after)
			if most < left || least > left+25*time.Millisecond+left/1e9 {
				t.Errorf("seed %d: %v: the state lives for %v to %v, and is as new after %v", seed, r.Limit, least, most, left)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d states were looked at", checked)
	}
}

// TestBucketValueIsSmall: keys are many.
func TestBucketValueIsSmall(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	d := a.duel(t, 1, func(*duel) sluice.Algorithm {
		return sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20}
	})
	r := sluice.Request{Limit: d.limits[0], Key: d.keys[0], Cost: 7}
	for range 3 {
		d.decide(r)
		d.now += 12_345
	}
	if n := a.int(t, "STRLEN", a.key(t, "*")); n > 28 {
		t.Errorf("the value takes %d bytes", n)
	}
}

// TestForeignCharges: reservations end under any other numbers than they were made with.
func TestForeignCharges(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	algorithms := []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(1000), Burst: 1000},
		sluice.TokenBucket{Rate: sluice.PerSecond(7), Burst: 5},
		sluice.TokenBucket{Rate: sluice.Per(1, time.Microsecond), Burst: 1 << 52},
		sluice.TokenBucket{Rate: sluice.Per(1<<53-1, time.Microsecond)},
		sluice.TokenBucket{Rate: sluice.Per(1, 100*365*24*time.Hour), Burst: 700, Debt: 700},
		sluice.TokenBucket{Rate: sluice.Per(1<<50-1, 999_983*time.Microsecond), Burst: 1 << 42, Debt: 1},
	}
	for i, from := range algorithms {
		for j, to := range algorithms {
			for seed := range uint64(redistest.Times(t, 2)) {
				if i == j {
					continue
				}
				d := a.duel(t, seed, anyOf(tokenBucket))
				l, m := sluice.MustLimit("duel", from), sluice.MustLimit("duel", to)
				r := sluice.Request{Limit: l, Key: d.keys[0], MaxWait: 1 << 61}
				for range 1 + d.rnd.IntN(5) {
					r.Cost = d.one(1, l.Capacity()/10, l.Capacity()/2, l.Capacity())
					r.Floor = d.one(0, l.Capacity()/2, l.Capacity()-r.Cost)
					d.decide(r)
				}
				d.now += d.one(0, 1, 2, 1000, 1_000_000)
				d.decide(sluice.Request{Limit: m, Key: d.keys[0], Cost: 1, MaxWait: time.Duration(d.one(0, 1<<61))})
				for d.now += d.one(0, 1, 2, 1000, 1_000_000); len(d.live) > 0; d.live = d.live[:len(d.live)-1] {
					d.cancel(len(d.live) - 1 - d.rnd.IntN(len(d.live)))
					d.look(m, d.keys[0])
					d.settle(len(d.live)-1, d.one(0, 1, d.live[len(d.live)-1].Cost-1, 1<<53))
					d.look(m, d.keys[0])
				}
			}
		}
	}
}

// TestForeignFloor: a reservation has waited for a floor of more than the bucket holds that
// would get it back. Others may depend on it: nothing comes back.
func TestForeignFloor(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	d := a.duel(t, 1, anyOf(tokenBucket))
	l := sluice.MustLimit("duel", sluice.TokenBucket{Rate: sluice.PerSecond(1000), Burst: 1000})
	m := sluice.MustLimit("duel", sluice.TokenBucket{Rate: sluice.PerSecond(1000), Burst: 500})
	for range 2 {
		d.decide(sluice.Request{Limit: l, Key: d.keys[0], Cost: 100, Floor: 900, MaxWait: time.Hour})
	}
	d.now++
	d.decide(sluice.Request{Limit: m, Key: d.keys[0], Cost: 1})
	d.cancel(len(d.live) - 2)
	if got := d.look(m, d.keys[0]); got.Remaining != 299 {
		t.Errorf("of 500, 201 are used: %+v", got)
	}
}

// TestLargestDebtsAreCountedExactly: what is owed is counted exactly up to the most that may be owed.
func TestLargestDebtsAreCountedExactly(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for _, algorithm := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 1 << 40},
		sluice.TokenBucket{Rate: sluice.Per(1, time.Microsecond), Burst: 1 << 52},
		sluice.TokenBucket{Rate: sluice.Per(1<<53-1, time.Microsecond)},
		sluice.TokenBucket{Rate: sluice.Per(3, 7*time.Microsecond), Burst: 1<<52 - 1, WarmUp: time.Second},
		sluice.LeakyBucket{Rate: sluice.Per(3, 7*time.Microsecond), Queue: 1<<53 - 3, Undelayed: 12345},
	} {
		d := a.duel(t, 1, func(*duel) sluice.Algorithm { return algorithm })
		r := sluice.Request{Limit: d.limits[0], Key: d.keys[0], MaxWait: 100 * 365 * 24 * time.Hour}
		for r.Cost = r.Limit.Capacity(); r.Cost > 0; r.Cost /= 3 {
			for range 8 {
				if got := d.decide(r); !got.Allowed {
					break
				}
				d.now++
			}
		}
		d.settle(0, math.MaxInt64)
		d.look(r.Limit, r.Key)
	}
}

// TestBatchesOfInexactBuckets: of a bucket that regains more than 2^53 ticks, a batch gets as many units as a request.
func TestBatchesOfInexactBuckets(t *testing.T) {
	t.Parallel()
	const count, micros = 999_999_937, 1_000_003 // both odd, so that odd multiples of their product are not exact
	a := newArena(t)
	d := a.duel(t, 1, func(*duel) sluice.Algorithm {
		return sluice.TokenBucket{Rate: sluice.Per(count, micros*time.Microsecond), Burst: 100 * count}
	})
	for periods := int64(9); periods < 30; periods += 2 {
		var all, part []sluice.Request
		for _, k := range d.keys {
			d.reset(d.limits[0], k)
			all = append(all, sluice.Request{Limit: d.limits[0], Key: k, Cost: 100 * count})
			part = append(part, sluice.Request{Limit: d.limits[0], Key: k, Cost: periods * count})
		}
		d.decideAll(all)
		d.now += periods*micros - 1
		d.decideAll(part)
		d.now++
		d.decideAll(part)
	}
}
