package algo_test

import (
	"math"
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// TestBucketOwesNoMoreThanItsBound: beyond the most units, or the most ticks, a waiting request
// is denied, and passes when RetryAfter says.
func TestBucketOwesNoMoreThanItsBound(t *testing.T) {
	for _, c := range []struct {
		count, period, burst int64
		most                 uint64 // ticks
	}{
		{1, 1, 1 << 50, algo.MaxUnits},
		{1, 7, 1 << 50, 7 * algo.MaxUnits},
		{1, 1 << 10, 1 << 50, algo.MaxTicks},
	} {
		p := newBucket(c.count, c.period, c.burst, 1)
		var s algo.State
		var res algo.Result
		req := algo.Request{Now: 1, MaxWait: math.MaxInt64}
		for req.Cost = c.burst; req.Cost > 0; req.Cost /= 2 {
			for res.Reason = algo.None; res.Reason == algo.None; {
				s, res = p.Bucket.Decide(s, req)
			}
		}
		req.Cost = 1
		if s.V != c.most || res.RetryAfter < 1 {
			t.Errorf("%d/%d: %d ticks are missing, want %d; %+v", c.count, c.period, s.V, c.most, res)
		}
		early := req
		early.Now += res.RetryAfter - 1
		if _, again := p.Bucket.Decide(s, early); again.Allowed {
			t.Errorf("%d/%d: passes a microsecond early", c.count, c.period)
		}
		req.Now += res.RetryAfter
		if _, again := p.Bucket.Decide(s, req); !again.Allowed {
			t.Errorf("%d/%d: does not pass after %d", c.count, c.period, res.RetryAfter)
		}
	}
}

// TestEndsOfForeignCharges: a charge made under other numbers may hold more than these numbers
// can count.
func TestEndsOfForeignCharges(t *testing.T) {
	const huge = 1 << 52
	slow := newBucket(1, 3_000_000_000_000_001, 10, 10)
	short := algo.State{T: 100, V: 12 * slow.Bucket.Den}
	for _, c := range []struct {
		name string
		got  algo.State
		want uint64 // ticks
	}{
		{"a settlement for less", slow.Bucket.Settle(short, 100, algo.Charge{Cost: huge, At: 100}, 1), 0},
		{"a settlement for more", slow.Bucket.Settle(short, 100, algo.Charge{Cost: 1, At: 100}, math.MaxInt64), 20 * slow.Bucket.Den},
		{"a reservation on which no other relies", slow.Bucket.Cancel(short, 100, algo.Charge{Cost: huge, At: 100, Over: 2 * slow.Bucket.Den}), 0},
		{
			// It left less missing than nothing: everything that is missing was taken after it.
			"a floor beyond the burst",
			slow.Bucket.Cancel(short, 100, algo.Charge{Cost: 13, Floor: huge, At: 100, Over: 2 * slow.Bucket.Den}), 11 * slow.Bucket.Den,
		},
	} {
		if missing := c.got.V &^ (1 << 63); missing != c.want {
			t.Errorf("%s: %d ticks are missing, want %d", c.name, missing, c.want)
		}
	}
	queue := queueOf(1, 3_000_000_000_000_001, 10, 0)
	tail := algo.State{T: 100, V: 5 * queue.Leaky.Den}
	if s := queue.Leaky.Settle(tail, 100, algo.Charge{Cost: huge, At: 100, Over: tail.V}, 0); s.V != 0 {
		t.Errorf("a leaky bucket is left %d ticks", s.V)
	}
}

// TestConvertedChargeThatHasActed gives nothing back, however old the charge is.
func TestConvertedChargeThatHasActed(t *testing.T) {
	from, to := newBucket(algo.MaxUnits, 1, 1<<50, 1), newBucket(1, 1<<40, 1, 1)
	c := algo.Charge{Cost: 1, At: 100, Over: 1 << 50}
	for now, want := range map[int64]bool{100: true, 102: false, 1 << 52: false} {
		if got := to.Bucket.ConvertCharge(&from.Bucket, c, now); got.Over > 0 != want {
			t.Errorf("at %d it waits for %d ticks", now, got.Over)
		}
	}
}

// TestConvertedWorkIsBounded: rounding up stops at MaxTicks.
func TestConvertedWorkIsBounded(t *testing.T) {
	from, to := queueOf(1, 3, 1<<52, 0), queueOf(1, 1<<42, 1, 0)
	for _, work := range []uint64{3 << 20, 3<<20 + 1, 3 << 50} {
		s := to.Leaky.Convert(&from.Leaky, algo.State{T: 1, V: work}, 1)
		if s.V != algo.MaxTicks {
			t.Errorf("%d ticks become %d", work, s.V)
		}
	}
}

// queueOf makes a leaky bucket.
func queueOf(count, period, queue, undelayed int64) algo.Params {
	return algo.Params{
		Kind: algo.KindLeaky, Capacity: queue + 1,
		Leaky: algo.NewLeakyBucket(algo.NewPace(count, period), period, queue, undelayed),
	}
}
