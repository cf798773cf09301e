package redisstore

import (
	_ "embed" // the script

	"github.com/sluicehq/sluice/algo"
)

//go:embed scripts/leaky.lua
var leakyScript string

var leakyKind = kind{
	word:    "leaky",
	script:  leakyScript,
	needs:   needProduct | needTicks,
	numbers: leakyNumbers,
	read:    readLeaky,
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
