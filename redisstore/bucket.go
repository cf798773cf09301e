package redisstore

import "github.com/sluicehq/sluice/internal/algo"

var bucketKind = kind{
	script:  "bucket",
	quick:   "bucket_quick",
	numbers: bucketNumbers,
	read:    readBucket,
	origin:  origin{skipInts(4), bucketParams},
	den:     func(p *algo.Params) uint64 { return p.Bucket.Den },
}

func bucketNumbers(p *algo.Params) []int64 {
	b := &p.Bucket
	return []int64{int64(b.Num), int64(b.Den), b.Burst, b.Debt, dens(b.Pace, b.Period(), b.Burst)}
}

// dens returns how often den fits into the period of a limit. It returns 0 if the period is
// exactly the time of these units.
func dens(pace algo.Pace, period, units int64) int64 {
	if period == pace.Time(units) {
		return 0
	}
	return period / int64(pace.Den)
}

// readBucket reads the time of the last charge and what is missing. A bucket that has lent
// has a fraction below zero.
func readBucket(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindBucket) {
		return algo.State{}, nil
	}
	at, units, fraction := r.count(), r.count(), r.int()
	lent := fraction < 0
	if lent {
		fraction = -1 - fraction
	}
	missing, ok := joined(units, fraction, p.Bucket.Pace)
	if !ok {
		r.fail()
		return algo.State{}, nil
	}
	return p.Bucket.Restore(at, missing, lent), nil
}

// joined returns the ticks of whole units and a fraction. It reports false if no state has
// as many.
func joined(units, fraction int64, pace algo.Pace) (uint64, bool) {
	if uint64(fraction) >= pace.Den || !pace.Fits(uint64(units)) {
		return 0, false
	}
	return uint64(units)*pace.Den + uint64(fraction), true
}

var leakyKind = kind{
	word:    "leaky",
	script:  "leaky",
	numbers: leakyNumbers,
	read:    readLeaky,
	origin:  origin{skipInts(4), leakyParams},
	den:     func(p *algo.Params) uint64 { return p.Leaky.Den },
}

func leakyNumbers(p *algo.Params) []int64 {
	b := &p.Leaky
	return []int64{int64(b.Num), int64(b.Den), b.Queue, b.Undelayed, dens(b.Pace, b.Period(), b.Queue+1)}
}

// readLeaky reads the time of the last charge and the work in the queue.
func readLeaky(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindLeaky) {
		return algo.State{}, nil
	}
	at := r.count()
	work, ok := joined(r.count(), r.count(), p.Leaky.Pace)
	if !ok {
		r.fail()
		return algo.State{}, nil
	}
	return algo.State{T: at, V: work}, nil
}

// The ticks of a token bucket with a warm-up are cut into low bits and high bits, not into
// units. The bucket may owe more units than a script can count exactly.
const (
	lowBits  = 48
	highBits = 15 // of sums of two
)

var warmKind = kind{
	word:    "warm",
	script:  "warm",
	numbers: warmNumbers,
	read:    readWarm,
	origin:  origin{skipInts(6), warmParams},
	den:     func(*algo.Params) uint64 { return 1 << lowBits },
}

func warmNumbers(p *algo.Params) []int64 {
	b := &p.Warm
	return []int64{int64(b.Num), int64(b.Den), b.Burst, b.Debt, b.Warm, b.Cold, min(b.Period(), exact)}
}

// readWarm reads the time of the last charge, the ticks owed and the warmth.
func readWarm(r *reader, p *algo.Params) (algo.State, []uint64) {
	words := make([]uint64, algo.WarmWords)
	if r.holds(algo.KindWarmBucket) {
		words[0] = uint64(r.count())
		words[1] = r.wide()
		words[2] = r.wide()
		b := &p.Warm
		if words[2] > uint64(b.Warm)*b.Num*uint64(5+b.Cold) {
			r.fail()
		}
	}
	return algo.State{}, words
}

// wide reads a number that was cut into low bits and high bits.
func (r *reader) wide() uint64 {
	low, high := r.count(), r.count()
	if low >= 1<<lowBits || high >= 1<<highBits {
		r.fail()
	}
	return uint64(high)<<lowBits | uint64(low)
}
