package hybrid_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// decideAll decides a batch and reports whether that called the bank.
func (s *stage) decideAll(rs ...sluice.Request) (out []sluice.Decision, called bool) {
	s.Helper()
	before := s.exchanges()
	for i := range rs {
		if rs[i].Limit == nil {
			rs[i].Limit = s.limit
		}
		if rs[i].Key.Len() == 0 {
			rs[i].Key = key
		}
	}
	out = make([]sluice.Decision, len(rs))
	if err := s.store.DecideAll(context.Background(), rs, out); err != nil {
		s.Fatalf("DecideAll: %v", err)
	}
	return out, s.exchanges() != before
}

// A batch is local if all its keys have units in hand. Keys that are requested only in batches get
// units if all keys of the batches are requested often.
func TestBatches(t *testing.T) {
	other, cold := sluice.StringKey("other"), sluice.StringKey("cold")
	onStage(t, slow(10_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		calls := 0
		for range 200 {
			out, called := s.decideAll(sluice.Request{Cost: 1}, sluice.Request{Key: other, Cost: 2})
			if !out[0].Allowed || !out[1].Allowed {
				t.Fatalf("%+v", out)
			}
			if called {
				calls++
			}
			pass(ms)
		}
		if calls > 30 {
			t.Errorf("%d of 200 batches called the bank", calls)
		}
		for _, c := range []struct {
			name    string
			rs      []sluice.Request
			called  bool
			allowed []bool
			charged int64 // of key
		}{
			{"the same key twice", []sluice.Request{{Cost: 1}, {Cost: 2}}, false, []bool{true, true}, 3},
			{"a peek", []sluice.Request{{Cost: 1, Peek: true}, {Cost: 2}}, false, []bool{true, true}, 2},
			{"a shadow", []sluice.Request{{Cost: 1, Shadow: true}, {Cost: 2}}, false, []bool{true, true}, 3},
			{"a cold key", []sluice.Request{{Cost: 1}, {Key: cold, Cost: 1}}, true, []bool{true, true}, 1},
			{"more than in hand", []sluice.Request{{Cost: 1}, {Cost: 4000}}, true, []bool{true, true}, 4001},
			{"a denial", []sluice.Request{{Cost: 1}, {Cost: 9999}}, true, []bool{true, false}, 0},
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

// spentOf returns what the key has used in all: in the bank, and in hand.
func (s *stage) spentOf() int64 {
	s.Helper()
	n := s.used()
	for _, k := range s.store.Keys(10) {
		if k.Key == key {
			n += k.Unreported
		}
	}
	return n
}

// While a denial is kept, batches with its key are denied without a call, and charge shadows only.
func TestBatchesAreDenied(t *testing.T) {
	full := sluice.StringKey("full")
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.warm()
		s.request(sluice.Request{Key: full, Cost: 1000})
		for range 20 {
			s.request(sluice.Request{Key: full, Cost: 1})
		}
		before := s.spentOf()
		out, called := s.decideAll(sluice.Request{Cost: 1}, sluice.Request{Key: full, Cost: 1}, sluice.Request{Cost: 2, Shadow: true})
		if called || !out[0].Allowed || out[1].Allowed || !out[2].Allowed {
			t.Errorf("called %v, %+v", called, out)
		}
		if n := s.spentOf() - before; n != 2 {
			t.Errorf("%d units were charged, want the 2 of the shadow", n)
		}
		out, called = s.decideAll(sluice.Request{Cost: 1}, sluice.Request{Key: full, Cost: 1, Shadow: true})
		if called || !out[0].Allowed || out[1].Allowed || s.spentOf()-before != 3 {
			t.Errorf("called %v, %+v, %d units", called, out, s.spentOf()-before)
		}
	})
}

// A charge in hand is corrected in hand, and a reported one by the wrapped store.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name     string
		reported bool
		actual   int64
		used     int64
	}{
		{"less, in hand", false, 2, 2},
		{"nothing, in hand", false, 0, 0},
		{"more, in hand", false, 15, 15},
		{"more than in hand", false, 500, 500},
		{"less, reported", true, 2, 2},
		{"more, reported", true, 15, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.1}), func(s *stage) {
				s.warm()
				r := sluice.Request{Limit: s.limit, Key: key, Cost: 10}
				d, called := s.request(r)
				for called { // a fresh grant is in hand then
					d, called = s.request(r)
				}
				before := s.spentOf() - 10
				if c.reported {
					pass(3 * period)
				}
				came := s.spentOf() - 10 - before // tokens that came back
				if err := s.store.Settle(context.Background(), r.Charge(&d), c.actual); err != nil {
					t.Fatal(err)
				}
				if n := s.spentOf() - before - came; n != c.used {
					t.Errorf("%d units are used, want %d", n, c.used)
				}
			})
		})
	}
}

// Cancel gives back a charge in hand.
func TestCancel(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.1}), func(s *stage) {
		s.warm()
		r := sluice.Request{Limit: s.limit, Key: key, Cost: 3}
		before := s.spentOf()
		d, called := s.request(r)
		if err := s.store.Cancel(context.Background(), r.Charge(&d)); err != nil || called {
			t.Fatal(err, called)
		}
		if n := s.spentOf() - before; n != 0 {
			t.Errorf("%d units are used", n)
		}
	})
}

// Cancel gives back nothing after the moment of the charge, as in any store: a program may cancel
// whatever it has not used in time, and a local charge acts at once.
func TestCancelAfterTheCharge(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.1}), func(s *stage) {
		s.warm()
		r := sluice.Request{Limit: s.limit, Key: key, Cost: 3}
		before := s.spentOf()
		d, called := s.request(r)
		pass(time.Microsecond)
		if err := s.store.Cancel(context.Background(), r.Charge(&d)); err != nil || called {
			s.Fatal(err, called)
		}
		if n := s.spentOf() - before; n != 3 {
			s.Errorf("%d units are used, want 3", n)
		}
	})
}

// A charge that was reported is settled by the wrapped store, and not with units that were spent since,
// also while the same grant goes on. A full bucket gets nothing back.
func TestSettleLongAfterTheCharge(t *testing.T) {
	onStage(t, bucket(10_000, 1000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.warm()
		r := sluice.Request{Limit: s.limit, Key: key, Cost: 10}
		old, called := s.request(r)
		s.take(1000, ms) // and the bucket is full all the time
		now, calledNow := s.request(r)
		if called || calledNow || !old.Allowed || !now.Allowed {
			s.Fatalf("%v %+v, %v %+v", called, old, calledNow, now)
		}
		before := s.stats().Unreported
		if err := s.store.Settle(context.Background(), r.Charge(&old), 1); err != nil {
			s.Fatal(err)
		}
		if n := s.stats().Unreported; n != before || n < 10 {
			s.Errorf("%d units were to report, and %d are", before, n)
		}
	})
}
