package algo_test

import (
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// TestWarmCancelOnceActed cancels a reservation that has acted. What was taken
// behind it has been given back since, which leaves the wait that it left but not the
// warmth: its moment is not to be inferred from that.
func TestWarmCancelOnceActed(t *testing.T) {
	b := algo.NewWarmBucket(algo.NewPace(1, 1000), 1000, 8, 8, 10_000, 3)
	for name, end := range map[string]func(w []uint64, c algo.Charge){
		"cancel": func(w []uint64, c algo.Charge) { b.Cancel(w, 50_000, c) },
		"settle": func(w []uint64, c algo.Charge) { b.Settle(w, 50_000, c, 0) },
	} {
		w := make([]uint64, algo.WarmWords)
		first := algo.Request{Now: 50_000, Cost: 5}
		took := b.Decide(w, first, true)
		behind := algo.Request{Now: 50_000, Cost: 5, MaxWait: 20_000}
		waits := b.Decide(w, behind, true)
		if !took.Allowed || took.Delay != 0 || !waits.Allowed || waits.Delay != 10_000 {
			t.Fatalf("%s: %+v, then %+v", name, took, waits)
		}
		end(w, charged(behind, waits))
		look := algo.Request{Now: 50_001, Cost: 1}
		before := b.Decide(w, look, false)
		b.Cancel(w, 50_001, charged(first, took))
		if after := b.Decide(w, look, false); after != before {
			t.Errorf("%s: %+v was given back after it had acted: %+v", name, before, after)
		}
	}
}

func charged(a algo.Request, ans algo.Result) algo.Charge {
	return algo.Charge{Cost: a.Cost, Floor: a.Floor, At: ans.At, Over: ans.Over}
}
