package algo_test

import (
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// forAll checks a law of all algorithms.
func forAll(t *testing.T, n int, holds func(t *testing.T, c *chooser, p algo.Params, q plan)) {
	t.Helper()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			law(t, n, func(t *testing.T, c *chooser) {
				p, _, q := s(c)
				holds(t, c, p, q)
			})
		})
	}
}

// begin returns a time to begin a schedule at.
func begin(c *chooser, q plan) int64 {
	return c.one(0, q.period, 1_700_000_000_000_000) + c.below(q.period+1)
}

// look returns what remains, and takes nothing.
func look(m *machine, now, floor int64) algo.Result {
	return m.decide(algo.Request{Now: now, Floor: floor, Member: 1 << 40}, false)
}

func TestDenialChangesNothing(t *testing.T) {
	forAll(t, 60, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		for range 60 {
			now += c.step(q.pace, 0)
			a := q.request(c, now)
			m.grow(now)
			before := m.state()
			if res := m.decide(a, true); !res.Allowed && !a.Debit && m.state() != before && (!p.CountsDenied() || res.Reason == algo.Never) {
				t.Errorf("%s: denied %+v, but %s became %s", numbers(&p), a, before, m.state())
				return
			}
		}
	})
}

// TestLatestState: the latest time in a state is the time of the last charge, or the beginning of
// its window.
func TestLatestState(t *testing.T) {
	forAll(t, 60, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		if !p.Inline() {
			return
		}
		m, now := newMachine(p), begin(c, q)
		for range 60 {
			now += c.step(q.pace, 0)
			a := q.request(c, now)
			a.Overdraw = false
			res := m.decide(a, true)
			latest := p.LatestState(m.s)
			if res.Allowed && a.Cost > 0 && (latest > res.At || latest <= res.At-q.period) {
				t.Errorf("%s: charged at %d, and the latest time in %s is %d", numbers(&p), res.At, m.state(), latest)
				return
			}
		}
	})
}

func TestAllowMovesByTheCost(t *testing.T) {
	forAll(t, 60, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		if p.Kind == algo.KindWarmBucket {
			return // its price depends on its warmth; see its oracle
		}
		m, now := newMachine(p), begin(c, q)
		for i := range 60 {
			now += c.step(q.pace, 0)
			a := q.request(c, now)
			a.Member = uint64(i + 1)
			a.MaxWait, a.Overdraw = 0, false
			before := look(m, now, 0).Remaining
			res := m.decide(a, true)
			after := look(m, now, 0).Remaining
			if res.Allowed && before-after != a.Cost {
				t.Errorf("%s: %+v took %d of %d", numbers(&p), a, before-after, before)
				return
			}
		}
	})
}

// TestRetryAfterIsExact: a client that comes back after RetryAfter is admitted, and a microsecond
// earlier it is not.
func TestRetryAfterIsExact(t *testing.T) {
	forAll(t, 80, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		for range 60 {
			now = max(0, now+c.step(q.pace, min(now, 3*q.period)))
			if now > 1<<53 {
				return
			}
			a := q.request(c, now)
			res := m.decide(a, true)
			if res.Allowed || res.Reason == algo.Never {
				if res.RetryAfter != 0 {
					t.Errorf("%s: %+v must retry: %+v", numbers(&p), a, res)
					return
				}
				continue
			}
			b := a
			b.Now += res.RetryAfter
			onTime := m.decide(b, false)
			b.Now--
			early := m.decide(b, false)
			if !onTime.Allowed || early.Allowed && p.Kind != algo.KindConcurrency {
				t.Errorf("%s: %+v got %+v; at that time %+v, before it %+v", numbers(&p), a, res, onTime, early)
				return
			}
		}
	})
}

// TestNoCostPasses: a request without cost passes, unless more units are used than there are. They can be
// only if what was denied counts, or if the clock goes back and an earlier window weighs more again.
func TestNoCostPasses(t *testing.T) {
	forAll(t, 40, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		for range 60 {
			if back := min(now, 3*q.period); p.Kind != algo.KindSlidingCounter {
				now = max(0, now+c.step(q.pace, back))
			} else {
				now += c.step(q.pace, 0)
			}
			a := q.request(c, now)
			a.MaxWait, a.Debit, a.Overdraw = 0, false, false
			m.decide(a, true)
			a.Cost = 0
			if res := m.decide(a, c.oneIn(2)); !res.Allowed && p.Kind != algo.KindWarmBucket && !p.CountsDenied() {
				t.Errorf("%s: %+v was denied: %+v", numbers(&p), a, res)
				return
			}
		}
	})
}

// TestCostsThatCannotFitNeverPass: a cost that does not fit above the floor never passes.
func TestCostsThatCannotFitNeverPass(t *testing.T) {
	forAll(t, 40, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		floor := c.one(0, 0, c.below(q.capacity+1), q.capacity, 1<<63-1)
		cost := c.one(q.capacity+1, 1<<63-1)
		if floor > 0 {
			cost = c.one(cost, max(1, q.capacity-floor+1))
		}
		for range 5 {
			res := m.decide(algo.Request{Now: now, Cost: cost, Floor: floor, Member: 1}, true)
			if res.Allowed || res.Reason != algo.Never || res.RetryAfter != 0 {
				t.Errorf("%s: cost %d above floor %d got %+v", numbers(&p), cost, floor, res)
				return
			}
			now += c.one(q.unit, q.period, 100*q.period)
		}
	})
}

// TestUnitsBelowTheFloorStay: Remaining is what is left above the floor, and a request for more is denied.
func TestUnitsBelowTheFloorStay(t *testing.T) {
	forAll(t, 60, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		for i := range 40 {
			now += c.step(q.pace, 0)
			a := q.request(c, now)
			a.Floor, a.MaxWait, a.Member = 0, 0, uint64(i+1)
			m.decide(a, true)
			floor := c.one(1, c.below(q.capacity+1), q.capacity, 1<<63-1)
			all, above := look(m, now, 0).Remaining, look(m, now, floor).Remaining
			if above != max(0, all-floor) {
				t.Errorf("%s: %d remain, %d above %d", numbers(&p), all, above, floor)
				return
			}
			too := m.decide(algo.Request{Now: now, Cost: above + 1, Floor: floor, Member: 1 << 40}, false)
			fits := m.decide(algo.Request{Now: now, Cost: above, Floor: floor, Member: 1 << 40}, false)
			if too.Allowed || above > 0 && !fits.Allowed && fits.Reason != algo.TooSoon {
				t.Errorf("%s: %d remain above %d: taking it %+v, more %+v", numbers(&p), above, floor, fits, too)
				return
			}
		}
	})
}

// TestFreshMayBeForgotten: no later request distinguishes a state that time has made fresh from
// one that was forgotten.
func TestFreshMayBeForgotten(t *testing.T) {
	forAll(t, 150, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		kept, now := newMachine(p), begin(c, q)
		swept, since := newMachine(p), int64(0)
		for i := range 80 {
			now = max(since, now+c.step(q.pace, min(now, 3*q.period)))
			if swept.fresh(now) {
				swept, since = newMachine(p), now
			}
			if i%20 == 19 {
				// No peek: after a jump of the clock it would see a state that it does not write.
				nothing := algo.Request{Now: now, Member: 1 << 40}
				swept.decide(nothing, true)
				now += kept.decide(nothing, true).ResetAfter
				if !kept.fresh(now) {
					t.Errorf("%s: %s is not fresh at its reset, %d", numbers(&p), kept.state(), now)
					return
				}
			}
			a := q.request(c, now)
			x, y := kept.decide(a, true), swept.decide(a, true)
			if x != y {
				t.Errorf("%s: %+v is answered %+v from %s, %+v from what was forgotten at %d, %s", numbers(&p), a, x, kept.state(), y, since, swept.state())
				return
			}
		}
	})
}

// longest is the longest wait of a limit, for its whole capacity.
func longest(p *algo.Params, q plan) int64 {
	switch p.Kind {
	case algo.KindSlidingWindow:
		return p.Cells.Length + p.Cells.Length/p.Cells.Cells
	case algo.KindSlidingCounter:
		return 2 * p.Counter.Length
	case algo.KindWarmBucket:
		// The last request was paid for at the slowest rate.
		return (p.Warm.Cold + 1) * (q.period + 1)
	default:
		return q.period
	}
}

// TestClockSetBackLocksNobodyOut: whatever the new time is, the wait grows by at most one period,
// and not at all if the clock was set back by more.
func TestClockSetBackLocksNobodyOut(t *testing.T) {
	forAll(t, 150, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), 1_000*q.period+c.below(q.period)
		for i := range 30 {
			next := now + c.step(pace{q.unit, q.unit}, 0)
			if m.decide(algo.Request{Now: next, Cost: 1, Member: uint64(i + 1)}, true).Allowed {
				now = next // jumps are counted from the latest charge
			}
		}
		back := c.one(1, q.unit, c.below(q.period), q.period, q.period+1, 2*q.period+1, 3*q.period, now-c.below(q.period))
		now = max(0, now-back)
		res := m.decide(algo.Request{Now: now, Cost: c.one(1, q.capacity), Member: 1 << 40}, true)
		most := longest(&p, q)
		if back <= 2*q.period {
			most += q.period
		}
		if res.RetryAfter > most {
			t.Errorf("%s: set back by %d, one waits for %d of %d", numbers(&p), back, res.RetryAfter, most)
		}
	})
}

// TestClockSetBackMintsNothing: right after the clock was set back by more than a period, nothing
// can be taken.
func TestClockSetBackMintsNothing(t *testing.T) {
	forAll(t, 80, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		if p.Kind == algo.KindConcurrency {
			return // what is in flight does not depend on the time
		}
		m, now := newMachine(p), 1_000*q.period+c.below(q.period)
		if !m.decide(algo.Request{Now: now, Cost: 1 + c.below(q.capacity)}, true).Allowed {
			return
		}
		now -= 2*q.period + 1 + c.below(q.period)
		if res := m.decide(algo.Request{Now: now, Cost: 1}, c.oneIn(2)); res.Allowed {
			t.Errorf("%s: after the jump %+v", numbers(&p), res)
		}
	})
}

// TestPeeksDecideAndChangeNothing: a peek decides as a decision does, changes nothing, and reports what could be taken
// now, and when the state as it is equals a fresh one.
func TestPeeksDecideAndChangeNothing(t *testing.T) {
	forAll(t, 40, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		for range 60 {
			now = max(0, now+c.step(q.pace, min(now, 3*q.period)))
			a := q.request(c, now)
			before := m.state()
			var got algo.Result
			p.Peek(m.s, m.w, &a, &got)
			want := m.decide(a, false)
			if want.Allowed && a.Cost > 0 {
				none := algo.Request{Now: now, Floor: a.Floor, MaxWait: a.MaxWait}
				left := m.decide(none, false)
				want.Remaining, want.ResetAfter = left.Remaining, left.ResetAfter
			}
			if got != want || m.state() != before {
				t.Errorf("%s: %+v got %+v, want %+v; %s became %s", numbers(&p), a, got, want, before, m.state())
				return
			}
			m.decide(a, true)
		}
	})
}
