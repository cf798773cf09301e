package hybrid_test

import (
	"testing"

	"github.com/sluicehq/sluice"
)

// A debit is local if it fits the units in hand. Otherwise the store charges it, once and in any case.
func TestDebitsAreChargedOnce(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.warm()
		debit := func(cost int64) sluice.Request { return sluice.Request{Key: key, Cost: cost, Debit: true} }
		before := s.spentOf()
		for range 20 {
			if d, called := s.request(debit(2)); !d.Allowed || called {
				t.Errorf("a debit of two of the units in hand: %+v, called %v", d, called)
			}
		}
		if n := s.spentOf() - before; n != 40 {
			t.Errorf("20 local debits of two charged %d units", n)
		}
		for _, c := range []struct {
			cost    int64
			allowed bool
		}{{4000, true}, {9000, false}, {20_000, false}, {3, false}} {
			before = s.spentOf()
			d, called := s.request(debit(c.cost))
			local := c.cost == 3 && d.Allowed && !called // it fits the units that are still in hand
			if !local && (d.Allowed != c.allowed || !called) {
				t.Errorf("a debit of %d: %+v, called %v", c.cost, d, called)
			}
			if n := s.spentOf() - before; n != c.cost {
				t.Errorf("a debit of %d charged %d units", c.cost, n)
			}
		}
	})
}

// A denial that is kept for a moment denies requests, and no debit: it is charged.
func TestDebitsAreNeverDeniedByAKeptDenial(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.take(2000, 0)
		if d, called := s.request(sluice.Request{Cost: 1}); d.Allowed || called {
			t.Fatalf("no denial is kept: %+v, called %v", d, called)
		}
		before := s.spentOf()
		for range 10 {
			if d, called := s.request(sluice.Request{Cost: 3, Debit: true}); d.Allowed || !called {
				t.Errorf("a debit of a spent key: %+v, called %v", d, called)
			}
		}
		if n := s.spentOf() - before; n != 30 {
			t.Errorf("ten debits of three charged %d units", n)
		}
	})
}

// In a local batch, debits are charged whatever the others are: a request that a kept denial denies
// leaves them charged, and a debit that does not fit makes the batch exact.
func TestDebitsInBatches(t *testing.T) {
	full := sluice.StringKey("full")
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		for range 200 {
			s.decideAll(sluice.Request{Cost: 1}, sluice.Request{Key: full, Cost: 1})
			pass(ms)
		}
		s.request(sluice.Request{Key: full, Cost: 1000, Debit: true})
		for range 1000 {
			s.request(sluice.Request{Key: full, Cost: 1}) // until nothing is in hand, and a denial is kept
		}
		for _, c := range []struct {
			name    string
			rs      []sluice.Request
			called  bool
			allowed []bool
			charged int64 // of key
		}{
			{"a debit that fits, after a request", []sluice.Request{{Cost: 1}, {Cost: 2, Debit: true}}, false, []bool{true, true}, 3},
			{"a debit beside a denial", []sluice.Request{{Cost: 1}, {Key: full, Cost: 1}, {Cost: 2, Debit: true}}, false, []bool{true, false, true}, 2},
			{"a debit of more than in hand", []sluice.Request{{Cost: 1}, {Cost: 5000, Debit: true}}, true, []bool{false, false}, 5000},
		} {
			before := s.spentOf()
			out, called := s.decideAll(c.rs...)
			for i := range out {
				if out[i].Allowed != c.allowed[i] {
					t.Errorf("%s: request %d: %+v", c.name, i, out[i])
				}
			}
			if called != c.called {
				t.Errorf("%s: called %v", c.name, called)
			}
			if n := s.spentOf() - before; n != c.charged {
				t.Errorf("%s: charged %d, want %d", c.name, n, c.charged)
			}
		}
	})
}

// An overdraw is local if it fits the units in hand. Otherwise the store decides it: it passes while a unit is left there, and
// no denial that is kept denies it.
func TestOverdrawsThatFitAreLocal(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.warm()
		over := func(cost int64) sluice.Request { return sluice.Request{Key: key, Cost: cost, Overdraw: true} }
		before := s.spentOf()
		if d, called := s.request(over(2)); !d.Allowed || called || s.spentOf()-before != 2 {
			t.Errorf("two of the units in hand: %+v, called %v, charged %d", d, called, s.spentOf()-before)
		}
		before = s.spentOf()
		if d, called := s.request(over(20_000)); !d.Allowed || !called || s.spentOf()-before != 20_000 {
			t.Errorf("an overdraw of 20000: %+v, called %v, charged %d", d, called, s.spentOf()-before)
		}
		before = s.spentOf()
		for _, rs := range [][]sluice.Request{{over(20_000)}, {over(20_000), {Key: key, Cost: 1}}} {
			if out, called := s.decideAll(rs...); out[0].Allowed || !called || s.spentOf() != before {
				t.Errorf("in debt: %+v, called %v, charged %d", out, called, s.spentOf()-before)
			}
		}
	})
}
