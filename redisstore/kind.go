package redisstore

import (
	"github.com/sluicehq/sluice/algo"
)

// exact is the bound of the integers that scripts compute with, and toomany one that
// they can tell from it, in place of all that is more than any limit has.
const (
	exact   = 1 << 53
	toomany = exact + 2
)

// kind is how the state of one algorithm is kept.
type kind struct {
	// word tells the algorithm in the keys of its states. The one that is used most has none.
	word string
	// script is the source of the algorithm, and quick what comes before all else in
	// the script of a single request, for those that need none of it.
	script, quick string
	// needs are the fragments that script uses.
	needs uint
	// numbers returns those of a limit that its state depends on, without the kind.
	numbers func(p *algo.Params) []int64
	// read returns the state that an answer is computed from: one of two words, or
	// words, as the algorithm has them. The view is empty for a fresh state.
	read func(r *reader, p *algo.Params) (algo.State, []uint64)
	// den returns the ticks of one unit, by which what charges hold is split.
	den func(p *algo.Params) uint64
}

// kinds are those of package algo.
var kinds = [...]kind{
	algo.KindBucket:         bucketKind,
	algo.KindWarmBucket:     warmKind,
	algo.KindLeaky:          leakyKind,
	algo.KindFixedWindow:    windowKind,
	algo.KindSlidingWindow:  cellsKind,
	algo.KindSlidingCounter: counterKind,
	algo.KindSlidingLog:     logKind,
	algo.KindConcurrency:    leasesKind,
}

// numbers returns those of a limit as scripts read them, the kind first, and how
// many there are.
func numbers(p *algo.Params) (blob string, count int) {
	all := kinds[p.Kind].numbers(p)
	b := appendInt(nil, int64(p.Kind))
	for _, n := range all {
		b = appendInt(b, n)
	}
	return string(b), 1 + len(all)
}

// denied returns 1 if denied attempts of a limit count.
func denied(p *algo.Params) int64 {
	if p.CountsDenied() {
		return 1
	}
	return 0
}

// ticks joins whole units and a fraction.
func ticks(units, fraction int64, den uint64) uint64 {
	return uint64(units)*den + uint64(fraction)
}
