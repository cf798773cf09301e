package redisstore

import (
	_ "embed" // the script

	"github.com/sluicehq/sluice/algo"
)

//go:embed scripts/warm.lua
var warmScript string

// Ticks of this kind are cut into their low bits and the others, not into units: what
// is owed may be that of more units than are exact.
const (
	lowBits  = 48
	highBits = 15 // of sums of two
)

var warmKind = kind{
	word:    "warm",
	script:  warmScript,
	numbers: warmNumbers,
	read:    readWarm,
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

// wide reads a number that was cut into its low bits and the others.
func (r *reader) wide() uint64 {
	low, high := r.count(), r.count()
	if low >= 1<<lowBits || high >= 1<<highBits {
		r.fail()
	}
	return uint64(high)<<lowBits | uint64(low)
}
