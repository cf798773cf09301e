package algo_test

import (
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// counting are the algorithms that can count denied attempts.
var counting = map[string]subject{
	"fixed window":    fixedWindow,
	"sliding window":  slidingWindow,
	"sliding counter": slidingCounter,
	"sliding log":     slidingLog,
}

// withDenied returns the numbers with denied attempts counted, or not counted.
func withDenied(p algo.Params, counted bool) algo.Params {
	p.Fixed.CountDenied, p.Cells.CountDenied = counted, counted
	p.Counter.CountDenied, p.Log.CountDenied = counted, counted
	return p
}

func forCounting(t *testing.T, n int, holds func(t *testing.T, c *chooser, p algo.Params, q plan)) {
	t.Helper()
	for name, s := range counting {
		t.Run(name, func(t *testing.T) {
			law(t, n, func(t *testing.T, c *chooser) {
				p, _, q := s(c)
				holds(t, c, withDenied(p, true), q)
			})
		})
	}
}

// TestHammeringStaysBlocked: a client that has taken everything, and tries for a unit more often
// than the limit gives one, gets none, however long it tries. A fixed window gives none before
// its end.
func TestHammeringStaysBlocked(t *testing.T) {
	forCounting(t, 150, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		first := m.decide(algo.Request{Now: now, Cost: q.capacity}, true)
		gap := (q.period - 1) / q.capacity
		for i := range 300 {
			now += c.one(gap, gap, c.below(gap+1))
			if p.Kind == algo.KindFixedWindow && now >= first.At+first.ResetAfter {
				return
			}
			m.grow(now)
			res := m.decide(algo.Request{Now: now, Cost: 1}, true)
			if res.Allowed || res.Remaining != 0 && res.Reason == algo.Limited {
				t.Errorf("%s: attempt %d, %d apart at most, got %+v in %s", numbers(&p), i, gap, res, m.state())
				return
			}
		}
	})
}

// TestAttemptsTakeAllThatIsLeft: after a denial for lack of units, no request with the same or a
// larger floor gets any at that moment.
func TestAttemptsTakeAllThatIsLeft(t *testing.T) {
	forCounting(t, 100, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		m, now := newMachine(p), begin(c, q)
		for range 60 {
			now += c.step(q.pace, 0)
			a := q.request(c, now)
			m.grow(now)
			if res := m.decide(a, true); res.Reason != algo.Limited {
				continue
			}
			floor := max(a.Floor, c.below(q.capacity+1))
			if res := m.decide(algo.Request{Now: now, Cost: 1, Floor: floor}, false); res.Allowed || res.Remaining != 0 {
				t.Errorf("%s: after %+v was denied, one unit above %d got %+v", numbers(&p), a, floor, res)
				return
			}
		}
	})
}

// TestCountingChangesNothingWithoutDenials: as long as nothing is denied, counting denied attempts changes
// nothing.
func TestCountingChangesNothingWithoutDenials(t *testing.T) {
	forCounting(t, 100, func(t *testing.T, c *chooser, p algo.Params, q plan) {
		counts, plain := newMachine(p), newMachine(withDenied(p, false))
		now := begin(c, q)
		for range 60 {
			now = max(0, now+c.step(q.pace, min(now, q.period)))
			a := q.request(c, now)
			for _, m := range []*machine{counts, plain} {
				m.grow(now)
			}
			if res := plain.decide(a, false); res.Reason == algo.Limited || res.Reason == algo.TooSoon {
				continue
			}
			x, y := counts.decide(a, true), plain.decide(a, true)
			if x != y || counts.state() != plain.state() {
				t.Errorf("%s: %+v is answered %+v in %s, %+v in %s without", numbers(&p), a, x, counts.state(), y, plain.state())
				return
			}
		}
	})
}

// TestAttemptsBeyondWhatIsCounted: states at the maximum of their count still deny, and say when
// they will allow.
func TestAttemptsBeyondWhatIsCounted(t *testing.T) {
	const start, second = 1_700_000_000_500_000, 1_000_000
	for _, p := range []algo.Params{
		{Kind: algo.KindFixedWindow, Fixed: algo.FixedWindow{Count: algo.MaxCount, Length: second, CountDenied: true}},
		{Kind: algo.KindFixedWindow, Fixed: algo.FixedWindow{Count: algo.MaxCount, Length: second, Opened: true, CountDenied: true}},
		{Kind: algo.KindSlidingWindow, Cells: algo.SlidingWindow{Count: algo.MaxCount, Length: second, Cells: 10, CountDenied: true}},
		{Kind: algo.KindSlidingCounter, Counter: algo.SlidingCounter{Count: algo.MaxCounterCount, Length: second, CountDenied: true}},
	} {
		p.Capacity = max(p.Fixed.Count, p.Cells.Count, p.Counter.Count)
		m, now, step := newMachine(p), int64(start), int64(1000)
		if p.Kind == algo.KindFixedWindow {
			step = 0 // its window would end
		}
		m.decide(algo.Request{Now: now, Cost: p.Capacity}, true)
		var res algo.Result
		for range 400 {
			res = m.decide(algo.Request{Now: now, Cost: p.Capacity}, true)
			if res.Allowed || res.Remaining != 0 || res.RetryAfter <= 0 || res.RetryAfter > 2*second {
				t.Fatalf("%s: a full count should deny and say when it allows: %+v", numbers(&p), res)
			}
			now += step
		}
		req := algo.Request{Now: now - step + res.RetryAfter, Cost: p.Capacity}
		onTime := m.decide(req, false)
		req.Now--
		if early := m.decide(req, false); !onTime.Allowed || early.Allowed {
			t.Errorf("%s: got %+v; then %+v, before it %+v", numbers(&p), res, onTime, early)
		}
	}
}
