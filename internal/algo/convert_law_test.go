package algo_test

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// TestConvertToTheSameNumbers: it changes no later result.
func TestConvertToTheSameNumbers(t *testing.T) {
	forAll(t, 100, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		kept, converted, now := newMachine(p), newMachine(p), begin(c, q)
		for range 60 {
			now += c.step(q.pace, 0)
			if c.oneIn(3) {
				converted.convert(p, now)
			}
			a := q.request(c, now)
			x, y := kept.decide(a, true), converted.decide(a, true)
			if x != y {
				t.Errorf("%s: %+v is answered %+v, after a conversion %+v", numbers(&p), a, x, y)
				return
			}
		}
	})
}

// TestConvertKeepsWhatIsUsed: if windows, logs and leases change their count, used units stay
// used.
func TestConvertKeepsWhatIsUsed(t *testing.T) {
	forAll(t, 100, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		to := p
		count := max(1, c.one(q.capacity/2, 2*q.capacity, 1+c.below(2*q.capacity)))
		to.Capacity = count
		switch p.Kind {
		case algo.KindFixedWindow:
			to.Fixed.Count = count
		case algo.KindSlidingWindow:
			to.Cells.Count = count
		case algo.KindSlidingCounter:
			to.Counter.Count = count
		case algo.KindSlidingLog:
			to.Log.Count = min(count, algo.MaxLogCount)
			to.Capacity = to.Log.Count
		case algo.KindConcurrency:
			to.Conc.Max, to.Conc.Queue = count, 0
		case algo.KindBucket, algo.KindWarmBucket, algo.KindLeaky:
			return // see the laws of buckets below
		default:
			t.Errorf("kind %d has no case in this test; add one that changes its count", p.Kind)
			return
		}
		m, now := newMachine(p), begin(c, q)
		for i := range 30 {
			now += c.step(pace{q.unit, q.unit}, 0)
			a := q.request(c, now)
			a.Member = uint64(i + 1)
			m.decide(a, true)
		}
		used := p.Capacity - look(m, now, 0).Remaining
		m.convert(to, now)
		got, want := look(m, now, 0).Remaining, max(0, to.Capacity-used)
		// Denied attempts may count beyond the capacity.
		if got > want || got < want && used < p.Capacity {
			t.Errorf("%s: %d are used; of %d remain %d", numbers(&p), used, to.Capacity, got)
		}
	})
}

// TestConvertOfFreshIsFresh: a state that may be forgotten stays fresh under other numbers.
// Otherwise forgetting it would change results.
func TestConvertOfFreshIsFresh(t *testing.T) {
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			law(t, 100, func(t *testing.T, c *chooser) {
				p, _, q := s(c)
				to, _, _ := s(c)
				m, now := newMachine(p), begin(c, q)
				for range 10 {
					now += c.step(q.pace, 0)
					m.decide(q.request(c, now), true)
				}
				if now += m.decide(algo.Request{Now: now, Member: 1 << 40}, true).ResetAfter; now > 1<<53 {
					return // no store has such a time
				}
				m.convert(to, now)
				if !m.fresh(now) {
					t.Errorf("%s: a fresh state became %s of %s", numbers(&p), m.state(), numbers(&to))
				}
			})
		})
	}
}

// TestConvertBucket: used tokens stay used. Waiting requests keep their moments.
func TestConvertBucket(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) {
		count, period, burst, debt := bucketNumbers(c)
		m := newMachine(newBucket(count, period, burst, debt))
		q := plan{pace: pace{max(1, period/count), m.p.Bucket.Period()}, capacity: burst, waits: true, wait: 2 * period}
		now := begin(c, q)
		for range 20 {
			now += c.step(q.pace, 0)
			m.decide(q.request(c, now), true)
		}
		now = m.s.T
		used := new(big.Rat).Sub(rat(burst, 1), tokensOf(m, now))
		was := rat(burst, 1)
		from := m.p.Bucket.Pace
		count, period, burst, debt = bucketNumbers(c)
		m.convert(newBucket(count, period, burst, debt), now)
		got := new(big.Rat).Sub(rat(burst, 1), tokensOf(m, now))
		converted(t, m, used, got, from, m.p.Bucket.Pace, was)
	})
}

// converted checks that units which were used stay used, and that the units beyond base last no shorter
// than before.
func converted(t *testing.T, m *machine, used, got *big.Rat, from, to algo.Pace, base *big.Rat) {
	t.Helper()
	faster := new(big.Rat).Quo(rat(int64(to.Num), int64(to.Den)), rat(int64(from.Num), int64(from.Den)))
	if waiting := new(big.Rat).Sub(used, base); waiting.Sign() > 0 && faster.Cmp(rat(1, 1)) > 0 {
		used = waiting.Add(base, waiting.Mul(waiting, faster))
	}
	if most := rat(algo.MaxUnits, 1); m.p.Kind == algo.KindBucket && used.Cmp(most) > 0 {
		used = most
	}
	if most := rat(algo.MaxTicks, int64(to.Den)); used.Cmp(most) > 0 {
		used = most // more than any state counts
	}
	// Rounded up, each part on its own.
	if got.Cmp(used) < 0 || got.Sub(got, used).Cmp(rat(2, int64(to.Den))) > 0 {
		t.Errorf("%s: %s used units became %s more", numbers(m.p), used.FloatString(9), got.FloatString(9))
	}
}

// TestConvertLeaky: the units in the queue stay. Waiting units keep their moments.
func TestConvertLeaky(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) {
		p, _, q := leaky(c)
		m, now := newMachine(p), begin(c, q)
		for range 20 {
			now += c.step(pace{q.unit, q.unit}, 0)
			m.decide(q.request(c, now), true)
		}
		now = m.s.T
		work := unitsOf(m, now)
		to, _, _ := leaky(c)
		m.convert(to, now)
		converted(t, m, work, unitsOf(m, now), p.Leaky.Pace, to.Leaky.Pace, rat(p.Leaky.Undelayed+1, 1))
	})
}

// TestConvertWarmBucket: the debt takes as long as before, and the warmth keeps its share.
func TestConvertWarmBucket(t *testing.T) {
	for _, step := range []struct {
		count, cold      int64
		wait, first, all int64
	}{
		{count: 5, cold: 10, wait: 1_257_500, first: 762_500},
		// Guava's testWarmUpAndUpdateWithColdFactor: twice the rate, half the prices.
		{count: 10, cold: 10, wait: 1_257_500, first: 762_500},
	} {
		p := algo.NewPace(5, 1_000_000)
		m := newMachine(algo.Params{
			Kind: algo.KindWarmBucket, Capacity: 1,
			Warm: algo.NewWarmBucket(p, 1_000_000, 1, 1, 4_000_000, 10),
		})
		now := int64(1_700_000_000_000_000)
		for _, delay := range []int64{0, 1_752_500, 1_257_500} {
			res := m.decide(algo.Request{Now: now, Cost: 1, MaxWait: 1 << 40}, true)
			if res.Delay != delay {
				t.Fatalf("delayed by %d, want %d", res.Delay, delay)
			}
			now += delay
		}
		to := algo.NewPace(step.count, 1_000_000)
		m.convert(algo.Params{
			Kind: algo.KindWarmBucket, Capacity: 1,
			Warm: algo.NewWarmBucket(to, 1_000_000, 1, 1, 4_000_000, step.cold),
		}, now)
		if res := m.decide(algo.Request{Now: now, Cost: 1, MaxWait: 1 << 40}, true); res.Delay != step.first {
			t.Errorf("at %d/s the next is delayed by %d, want %d", step.count, res.Delay, step.first)
		}
	}
}

// TestConvertToAnOpenedWindow: the units that are left count in a window that begins now.
func TestConvertToAnOpenedWindow(t *testing.T) {
	const hour = 3_600_000_000
	day := &algo.Calendar{Unit: algo.Day, Zone: time.UTC}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	from := algo.FixedWindow{Count: 5, Length: day.Longest(), Calendar: day}
	kept, _ := from.Decide(algo.State{}, algo.Request{Now: noon, Cost: 3})
	for _, step := range []struct{ length, now, reset, left int64 }{
		{hour, noon, hour, 2},
		{hour, noon + hour/2, hour, 2},
		{hour, noon + 2*hour, 0, 5},
		{24 * hour, noon, 24 * hour, 2},
		{24 * hour, noon - 13*hour, 25 * hour, 2},
		{24 * hour, noon - 300*hour, 24 * hour, 0},
	} {
		to := algo.FixedWindow{Count: 5, Length: step.length, Opened: true}
		_, got := to.Decide(to.Convert(&from, kept, step.now), algo.Request{Now: step.now})
		if got.ResetAfter != step.reset || got.Remaining != step.left {
			t.Errorf("%+v: after the conversion: %+v", step, got)
		}
	}
}

// TestRestoreCells makes a state from its contents.
func TestRestoreCells(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) {
		cells := algo.SlidingWindow{Count: 1000, Length: 70, Cells: 7}
		now := int64(1_700_000_000_000_000)
		w := make([]uint64, cells.Words())
		units := map[int64]uint64{}
		for range 20 {
			now += c.below(15)
			if cost := 1 + c.below(40); cells.Decide(w, algo.Request{Now: now, Cost: cost}, true).Allowed {
				units[now/10] += uint64(cost)
			}
		}
		newest := int64(w[0])
		all := make([]uint64, 8)
		for i := range all {
			all[i] = units[newest-int64(i)]
		}
		got := make([]uint64, cells.Words())
		if cells.Restore(got, newest, int64(w[2]), all); !slices.Equal(got, w) {
			t.Errorf("restored %v, want %v", got, w)
		}
	})
}

// TestRestoreCounter makes states from their contents.
func TestRestoreCounter(t *testing.T) {
	const start = 1_700_000_000_000_000
	c := algo.SlidingCounter{Count: 10, Length: 1_000_000}
	first, _ := c.Decide(algo.State{}, algo.Request{Now: start, Cost: 7})
	second, _ := c.Decide(first, algo.Request{Now: start + 1_900_000, Cost: 2})
	if got := c.Restore(start/c.Length, 0, 7, start); got != first {
		t.Errorf("restored %v, want %v", got, first)
	}
	if got := c.Restore(start/c.Length+1, 7, 2, start+1_900_000); got != second {
		t.Errorf("restored %v, want %v", got, second)
	}
}
