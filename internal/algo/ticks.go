package algo

import "math/bits"

// MaxTicks bounds every amount of ticks, so that the sum of two never overflows.
const MaxTicks = 1 << 62

// MaxUnits bounds the units missing from a bucket, and the cost of a settlement. Some stores
// compute in floating-point numbers, in which integers up to MaxUnits are exact.
const MaxUnits = 1<<53 - 1

// Pace is a rate reduced to its lowest terms: Num units are refilled every Den
// microseconds. In ticks, one unit is Den and one microsecond refills Num.
type Pace struct{ Num, Den uint64 }

// NewPace reduces count units per period microseconds; both must be positive.
func NewPace(count, period int64) Pace {
	n, d := uint64(count), uint64(period)
	a, b := n, d
	for b != 0 {
		a, b = b, a%b
	}
	return Pace{n / a, d / a}
}

// decay returns how many of ticks are left after passed microseconds.
func (p Pace) decay(ticks uint64, passed int64) uint64 {
	hi, lo := bits.Mul64(uint64(passed), p.Num)
	if hi != 0 || lo >= ticks {
		return 0
	}
	return ticks - lo
}

// wait returns the microseconds it takes to refill ticks, rounded up.
func (p Pace) wait(ticks uint64) int64 {
	if ticks == 0 {
		return 0
	}
	if p.Num == 1 {
		return int64(ticks)
	}
	return int64((ticks-1)/p.Num) + 1
}

// faster reports whether the rate is higher than the rate of from.
func (p Pace) faster(from Pace) bool {
	hi, lo := bits.Mul64(p.Num, from.Den)
	fromHi, fromLo := bits.Mul64(from.Num, p.Den)
	return hi > fromHi || hi == fromHi && lo > fromLo
}

// carry converts ticks that from counted at one moment to ticks of this pace, so that this pace
// counts on from the same moment: rounded up, at most MaxTicks. Above base, ticks are requests that
// wait for promised moments. They keep these moments under a higher rate too, as far as MaxUnits
// can be counted.
func (p Pace) carry(from Pace, ticks, base uint64) uint64 {
	if ticks <= base || !p.faster(from) {
		return mulDivUp(ticks, p.Den, from.Den)
	}
	micros, rest := (ticks-base)/from.Num, (ticks-base)%from.Num
	if micros >= MaxCount {
		return p.ticks(MaxUnits)
	}
	waiting, _ := mulDiv(micros, p.Num, 1)
	return min(mulDivUp(base, p.Den, from.Den)+waiting+mulDivUp(rest, p.Num, from.Num), p.ticks(MaxUnits))
}

// fits returns the most ticks of from that carry makes at most ticks of this pace. The rate must
// not be higher than the rate of from.
func (p Pace) fits(from Pace, ticks uint64) uint64 {
	n, _ := mulDiv(ticks, from.Den, p.Den)
	return n
}

// Time returns the microseconds it takes to refill units, rounded up. The units must fit.
func (p Pace) Time(units int64) int64 { return p.wait(uint64(units) * p.Den) }

// ticks returns the ticks of units, at most MaxTicks.
func (p Pace) ticks(units int64) uint64 {
	n, _ := mulDiv(uint64(units), p.Den, 1)
	return n
}

// Fits reports whether units of this pace can be counted in ticks.
func (p Pace) Fits(units uint64) bool {
	hi, lo := bits.Mul64(units, p.Den)
	return hi == 0 && lo <= MaxTicks
}

// mulDiv returns a·b/c rounded down, and whether there was a remainder. The
// quotient is clamped to MaxTicks.
func mulDiv(a, b, c uint64) (q uint64, inexact bool) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return MaxTicks, false
	}
	q, r := bits.Div64(hi, lo, c)
	if q > MaxTicks {
		return MaxTicks, false
	}
	return q, r != 0
}

// mulDivUp is mulDiv rounded up.
func mulDivUp(a, b, c uint64) uint64 {
	q, inexact := mulDiv(a, b, c)
	if inexact && q < MaxTicks {
		q++
	}
	return q
}
