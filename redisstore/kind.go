package redisstore

import (
	"github.com/sluicehq/sluice/internal/algo"
)

// exact is the bound of the integers that scripts compute with. tooMany replaces all larger
// numbers. Scripts can distinguish it from exact, and no limit is as large.
const (
	exact   = 1 << 53
	tooMany = exact + 2
)

// kind is how the state of one algorithm is kept.
type kind struct {
	// word names the algorithm in the keys of its states. The token bucket has no word.
	word string
	// script is the file of the algorithm. quick is the file that decides most single
	// requests, before the rest of the script runs.
	script, quick string
	// numbers returns the numbers of a limit that its state depends on, without the kind.
	numbers func(p *algo.Params) []int64
	// read returns the state in a view: as a State or as words, as the algorithm has it.
	// The view is empty for a fresh state.
	read func(r *reader, p *algo.Params) (algo.State, []uint64)
	// origin reads the numbers under which a state was kept; without skip, a view is under the
	// numbers of the request.
	origin origin
	// den returns how many ticks a unit is; nil if the algorithm does not count in ticks.
	den func(p *algo.Params) uint64
}

// kinds are the algorithms of package algo.
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

// numbers returns the numbers of a limit as scripts read them, the kind first, and how many
// there are.
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

// holds reports whether a view holds a state, and reads its kind. The view of a fresh state
// is empty.
func (r *reader) holds(k algo.Kind) bool {
	if !r.more() {
		return false
	}
	if r.count() != int64(k) {
		r.fail()
		return false
	}
	return true
}
