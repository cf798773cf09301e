package linearizable

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/oracle"
)

// histories is how many histories are recorded of each algorithm and kind; SLUICE_SOAK multiplies it.
const histories = 6

// patience is how long a check may take. A longer check fails.
const patience = 20 * time.Second

// The numbers of the limits. All of them make whole microseconds.
const (
	unit   = 1000 // microseconds per unit
	period = 1_000_000

	burst = 8
	debt  = 3

	leakyQueue = 6
	undelayed  = 2

	count  = 8 // per window or log
	length = 8 * unit
	cells  = 4

	most    = 4 // units at once under a concurrency limit
	inQueue = 2
	ttl     = 8 * unit
	latency = 2 * unit
	heldFor = unit // as releases report it
)

var rate = sluice.PerSecond(1000)

var subjects = []subject{
	{
		name: "token_bucket", algorithm: sluice.TokenBucket{Rate: rate, Burst: burst, Debt: debt},
		fresh: oracle.NewBucket(rate.Count(), period, burst, debt), waits: true, ends: true,
	},
	{
		name: "token_bucket_warm_up",
		algorithm: sluice.TokenBucket{
			Rate: rate, Burst: burst, Debt: debt, WarmUp: 10 * time.Millisecond, ColdFactor: 3,
		},
		fresh: oracle.NewWarmBucket(rate.Count(), period, burst, debt, 10*unit, 3), waits: true, ends: true,
	},
	{
		name: "leaky_bucket", algorithm: sluice.LeakyBucket{Rate: rate, Queue: leakyQueue, Undelayed: undelayed},
		fresh: oracle.NewLeaky(rate.Count(), period, leakyQueue, undelayed), waits: true, ends: true,
	},
	{name: "fixed_window", algorithm: sluice.FixedWindow{Rate: window8}, fresh: oracle.NewWindow(count, length, false, false), ends: true},
	{
		name: "fixed_window_opened", algorithm: sluice.FixedWindow{Rate: window8, Opened: true},
		fresh: oracle.NewWindow(count, length, true, false), ends: true,
	},
	{name: "sliding_window", algorithm: sluice.SlidingWindow{Rate: window8, Cells: cells}, fresh: oracle.NewCells(count, length, cells, false), ends: true},
	{name: "sliding_counter", algorithm: sluice.SlidingCounter{Rate: window8}, fresh: oracle.NewCounter(count, length, false), ends: true},
	{name: "sliding_log", algorithm: sluice.SlidingLog{Rate: window8}, fresh: oracle.NewLog(count, length, 0, false), ends: true},
	{
		name:      "concurrency",
		algorithm: sluice.Concurrency{Max: most, Queue: inQueue, TTL: ttl * time.Microsecond, Latency: latency * time.Microsecond},
		fresh:     oracle.NewLeases(most, inQueue, ttl, latency), ends: true, leases: true,
	},
}

// window8 is the rate of all windows and logs.
var window8 = sluice.Per(count, length*time.Microsecond)

// unwrapped returns the store itself.
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

// explain logs the longest order that was found, and the calls that cannot come next.
func explain(t *testing.T, longest, part []porcupine.Operation) {
	t.Helper()
	ordered := map[any]bool{}
	for _, o := range longest {
		ordered[o.Input] = true
		t.Log(describe(o))
	}
	t.Log("none of these can follow:")
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

// planned returns the plan of one history. In three of four histories, the clock does not move. In a
// history that resets keys, callers settle at no more than the cost: after a reset, a caller cannot see
// how much of its charge is left.
func planned(i int) plan {
	p := plan{seed: uint64(i), phases: 1, resets: i%2 == 0, ends: true}
	if i%4 == 3 || i%8 == 0 {
		p.phases = 5
	}
	return p
}

// TestEachKeyIsLinearizable checks the decisions about each key.
func TestEachKeyIsLinearizable(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			model := keyModel(s.fresh)
			for i := range redistest.Times(t, histories) {
				p := planned(i)
				check(t, model, record(t, &s, p, unwrapped), p)
			}
		})
	}
}

// TestBatchesAreLinearizable checks the decisions of callers that also send batches over two keys.
func TestBatchesAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			model := pairModel(s.fresh)
			for i := range redistest.Times(t, histories) {
				p := planned(i)
				p.batches = true
				check(t, model, record(t, &s, p, unwrapped), p)
			}
		})
	}
}
