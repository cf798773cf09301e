package linearizable

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicehq/sluice"
)

// histories is how many are recorded of each algorithm and kind.
const histories = 200

// patience is how long a check may take; one that takes longer is a failure.
const patience = 20 * time.Second

var rate = sluice.PerSecond(1000)

var subjects = []subject{
	{
		name: "token_bucket", algorithm: sluice.TokenBucket{Rate: rate, Burst: burst, Debt: bucketDebt},
		fresh: bucket{}, waits: true, ends: true,
	},
	{
		name: "token_bucket_warm_up",
		algorithm: sluice.TokenBucket{
			Rate: rate, Burst: burst, Debt: bucketDebt, WarmUp: 10 * time.Millisecond, ColdFactor: 3,
		},
		fresh: warmBucket{}, waits: true, ends: true,
	},
	{
		name: "leaky_bucket", algorithm: sluice.LeakyBucket{Rate: rate, Queue: leakyQueue, Undelayed: undelayed},
		fresh: leaky{}, waits: true, ends: true,
	},
	{name: "fixed_window", algorithm: sluice.FixedWindow{Rate: window8}, fresh: window{}, ends: true},
	{
		name: "fixed_window_opened", algorithm: sluice.FixedWindow{Rate: window8, Opened: true},
		fresh: window{opened: true}, ends: true,
	},
	{name: "sliding_window", algorithm: sluice.SlidingWindow{Rate: window8, Cells: cells}, fresh: ring{}, ends: true},
	{name: "sliding_counter", algorithm: sluice.SlidingCounter{Rate: window8}, fresh: counter{}, ends: true},
	{name: "sliding_log", algorithm: sluice.SlidingLog{Rate: window8}, fresh: requests{}, ends: true},
	{
		name:      "concurrency",
		algorithm: sluice.Concurrency{Max: most, Queue: inQueue, TTL: ttl * time.Microsecond},
		fresh:     leases{}, ends: true, leases: true,
	},
}

// window8 is the rate of all windows and logs.
var window8 = sluice.Per(count, length*time.Microsecond)

// unwrapped is the store itself.
func unwrapped(s sluice.Store) sluice.Store { return s }

// check fails the test unless the history is linearizable.
func check(t *testing.T, model porcupine.Model, history []porcupine.Operation, p plan) {
	t.Helper()
	got := porcupine.CheckOperationsTimeout(model, history, patience)
	if got == porcupine.Ok {
		return
	}
	t.Errorf("the history of %+v is %v", p, got)
	_, info := porcupine.CheckOperationsVerbose(model, history, patience)
	for i, orders := range info.PartialLinearizationsOperations() {
		longest := []porcupine.Operation{}
		for _, o := range orders {
			if len(o) > len(longest) {
				longest = o
			}
		}
		part := history
		if model.Partition != nil {
			part = model.Partition(history)[i]
		}
		if len(longest) < len(part) {
			explain(t, longest, part)
		}
	}
	t.FailNow()
}

// explain logs the longest order that was found, and the calls of which none could come next.
func explain(t *testing.T, longest, part []porcupine.Operation) {
	t.Helper()
	ordered := map[any]bool{}
	for _, o := range longest {
		ordered[o.Input] = true
		t.Log(describe(o))
	}
	t.Log("may be followed by none of:")
	soonest := int64(math.MaxInt64)
	for _, o := range part {
		if !ordered[o.Input] {
			soonest = min(soonest, o.Return)
		}
	}
	for _, o := range part {
		if !ordered[o.Input] && o.Call <= soonest {
			t.Log(describe(o))
		}
	}
}

// planned returns the plan of one of the histories. Time stands still in three of
// four of them; those whose keys are reset settle at no more than the cost, for
// what of a charge is left to be settled after that is not the caller's to know.
func planned(i int) plan {
	p := plan{seed: uint64(i), phases: 1, resets: i%2 == 0, ends: true}
	if i%4 == 3 || i%8 == 0 {
		p.phases = 5
	}
	return p
}

// TestKeys checks what callers are told about each key.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			model := keyModel(s.fresh)
			for i := range histories {
				p := planned(i)
				check(t, model, record(t, &s, p, unwrapped), p)
			}
		})
	}
}

// TestBatches checks what callers are told who also ask about two keys at once.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			model := pairModel(s.fresh)
			for i := range histories {
				p := planned(i)
				p.batches = true
				check(t, model, record(t, &s, p, unwrapped), p)
			}
		})
	}
}
