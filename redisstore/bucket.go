package redisstore

import (
	_ "embed" // the scripts

	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/bucket.lua
	bucketScript string
	//go:embed scripts/bucket_quick.lua
	bucketQuick string
)

var bucketKind = kind{
	script:  bucketScript,
	needs:   needProduct | needTicks,
	quick:   bucketQuick,
	numbers: bucketNumbers,
	read:    readBucket,
	den:     func(p *algo.Params) uint64 { return p.Bucket.Den },
}

func bucketNumbers(p *algo.Params) []int64 {
	b := &p.Bucket
	return []int64{int64(b.Num), int64(b.Den), b.Burst, b.Debt, dens(b.Pace, b.Period(), b.Burst)}
}

// dens returns how often den is in the period of a limit, or 0 if that is the time
// which units take.
func dens(pace algo.Pace, period, units int64) int64 {
	if period == pace.Time(units) {
		return 0
	}
	return period / int64(pace.Den)
}

// readBucket reads the time of the last charge and what is missing; the fraction of a
// bucket that has lent is below zero.
func readBucket(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindBucket) {
		return algo.State{}, nil
	}
	at, units, fraction := r.count(), r.count(), r.int()
	lent := fraction < 0
	if lent {
		fraction = -1 - fraction
	}
	b := &p.Bucket
	missing, ok := joined(units, fraction, b.Pace)
	if !ok {
		r.fail()
		return algo.State{}, nil
	}
	return b.Restore(at, missing, lent), nil
}

// joined returns the ticks of whole units and a fraction; it reports false if there
// cannot be as many.
func joined(units, fraction int64, pace algo.Pace) (uint64, bool) {
	if uint64(fraction) >= pace.Den || !pace.Fits(uint64(units)) {
		return 0, false
	}
	return ticks(units, fraction, pace.Den), true
}
