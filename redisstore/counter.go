package redisstore

import (
	_ "embed" // the scripts

	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/counter.lua
	counterScript string
	//go:embed scripts/counter_quick.lua
	counterQuick string
)

var counterKind = kind{
	word:    "counter",
	script:  counterScript,
	needs:   needProduct,
	quick:   counterQuick,
	numbers: func(p *algo.Params) []int64 { return []int64{p.Counter.Count, p.Counter.Length, denied(p)} },
	read:    readCounter,
}

// readCounter reads the number of a window, and the units of the one before and its own.
func readCounter(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindSlidingCounter) {
		return algo.State{}, nil
	}
	index, prev, cur := r.count(), r.count(), r.count()
	if index > exact/p.Counter.Length || prev >= 1<<40 || cur >= 1<<40 {
		r.fail()
		return algo.State{}, nil
	}
	return p.Counter.Restore(index, uint64(prev), uint64(cur)), nil
}
