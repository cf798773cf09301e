package decisions

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
)

// TestGrantsOfLargestLimits grants, reports and loses the most units that a limit can have. The sums
// of a key with them go beyond 2^53, where scripts are not exact.
func TestGrantsOfLargestLimits(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, l := range map[string]sluice.Algorithm{
		"bucket":  sluice.TokenBucket{Rate: sluice.PerHour(7_031_250), Burst: algo.MaxUnits - 1},
		"window":  sluice.FixedWindow{Rate: sluice.Per(algo.MaxUnits, day)},
		"cells":   sluice.SlidingWindow{Rate: sluice.Per(algo.MaxUnits, day)},
		"counter": sluice.SlidingCounter{Rate: sluice.Per(algo.MaxCounterCount, day)},
		"log":     sluice.SlidingLog{Rate: sluice.Per(65536, day)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrants(t)
			l := hybrid(t, "l", l, sluice.Hybrid{Stranded: 1})
			most := l.Capacity()
			first := g.claim(l, 1, driver.Claim{Seq: 1, Want: algo.MaxCount, Least: most, Demand: 1 << 50})
			if first.Units != most || first.Free != 0 || first.Escrow != most {
				t.Errorf("the first grant: %+v", first)
			}
			// The process starts again and has spent its credit: all of the first grant is lost.
			lost := g.claim(l, 1, driver.Claim{Seq: 2, Spent: most, Want: 1, Demand: 1 << 50})
			if lost.Units != 0 || lost.Escrow != 0 || lost.Free > 0 {
				t.Errorf("after the loss: %+v", lost)
			}
			over := g.claim(l, 2, driver.Claim{Seq: 1, Spent: most, Want: 1, Take: 1, Demand: 1})
			if over.Units != 0 || over.Decision.Allowed || over.Free > 0 {
				t.Errorf("with the credit of another process: %+v", over)
			}
			if g.remaining(l) != 0 {
				t.Errorf("%d remain", g.remaining(l))
			}
			if again := g.claim(l, 2, driver.Claim{Seq: 1, Spent: most, Want: 1, Take: 1, Demand: 1}); again.Stale || again.Free != over.Free {
				t.Errorf("the same again: %+v, at first %+v", again, over)
			}
		})
	}
}

// TestExpiredUnitsLeaveTheLog lets the units of two processes expire at different times. When they are counted, the units of the
// first one have left the log already.
func TestExpiredUnitsLeaveTheLog(t *testing.T) {
	t.Parallel()
	g := newGrants(t)
	h := sluice.Hybrid{Sync: 10 * time.Millisecond, Life: 40 * time.Millisecond, Stranded: 1}
	short, long := hybrid(t, "l", sluice.SlidingLog{Rate: sluice.Per(12, 3*time.Second)}, h), hybrid(t, "l", sluice.SlidingLog{Rate: sluice.Per(5, 7*time.Second)}, h)
	for holder := range uint64(2) {
		if got := g.claim(short, holder+1, driver.Claim{Seq: 1, Want: 1, Least: 1, Demand: 1}); got.Units != 1 {
			t.Fatalf("a grant: %+v", got)
		}
		g.now += 20_000
	}
	g.now += 3_010_000 // the units count for 3 s from the end of their grants
	if got := g.claim(long, 3, driver.Claim{Seq: 1, Take: 4, Demand: 1}); !got.Decision.Allowed || got.Decision.Remaining != 0 {
		t.Errorf("4 of 5 units, of which 1 is used: %+v", got.Decision)
	}
}
