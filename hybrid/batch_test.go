package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/internal/granttest"
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
func TestBatchesAreLocalWithUnitsInHand(t *testing.T) {
	other, cold := sluice.StringKey("other"), sluice.StringKey("cold")
	onStage(t, slow(10_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		calls := 0
		for range 200 {
			out, called := s.decideAll(sluice.Request{Cost: 1}, sluice.Request{Key: other, Cost: 2})
			if !out[0].Allowed || !out[1].Allowed {
				t.Fatalf("a batch with enough units was denied: %+v", out)
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

// Units in hand last while a claim for more travels, also if it takes most of the time between synchronisations.
func TestUnitsLastWhileClaimsTravel(t *testing.T) {
	other := sluice.StringKey("other")
	onStage(t, slow(1_000_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.set(func(_ context.Context, _ []driver.Claim, handle func()) error {
			pass(period * 3 / 10)
			handle()
			pass(period * 3 / 10)
			return nil
		})
		batches := func(n int) (exact int) {
			before := s.bank.decides
			for range n {
				s.decideAll(sluice.Request{Cost: 1}, sluice.Request{Key: other, Cost: 1})
				pass(ms)
			}
			return s.bank.decides - before
		}
		batches(1000)
		if exact := batches(2000); exact > 0 {
			t.Errorf("%d of 2000 batches were exact", exact)
		}
	})
}

// A batch of many requests is decided like a small one, in whatever order its keys are.
func TestLargeBatches(t *testing.T) {
	const many = 1000 // more are for the wrapped store, which may refuse them
	onStage(t, slow(1_000_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		rs := make([]sluice.Request, many)
		for i := range rs {
			rs[i] = sluice.Request{Key: sluice.StringKey(fmt.Sprint("key ", i*617%many)), Cost: 1}
		}
		for range 50 {
			s.decideAll(rs...)
			pass(ms)
		}
		rs[many/2] = sluice.Request{Key: key, Cost: 1}
		s.take(100, ms)
		for _, c := range []struct {
			name    string
			change  func(rs []sluice.Request) []sluice.Request
			called  bool
			allowed bool
			charged int64 // of key
		}{
			{"a thousand", func(rs []sluice.Request) []sluice.Request { return rs }, false, true, 1},
			{"seventeen", func(rs []sluice.Request) []sluice.Request { return rs[many/2-16:][:17] }, false, true, 1},
			{"one too many", func(rs []sluice.Request) []sluice.Request { return append(rs, sluice.Request{Cost: 2}) }, true, true, 3},
			{"a key many times", func(rs []sluice.Request) []sluice.Request {
				for i := range 30 {
					rs[i*7].Key = key
				}
				return rs
			}, false, true, 31},
			{"a key more often than there are units in hand", func(rs []sluice.Request) []sluice.Request {
				for i := range 30 {
					rs[many-1-i] = sluice.Request{Cost: 15_000} // in all less than is left beside the most that can be stranded
				}
				return rs
			}, true, true, 450_001},
			{"more than there are", func(rs []sluice.Request) []sluice.Request {
				rs[many-1] = sluice.Request{Cost: 999_999}
				return rs
			}, true, false, 0},
		} {
			before := s.spentOf()
			out, called := s.decideAll(c.change(slices.Clone(rs))...)
			if called != c.called {
				t.Errorf("%s: called %v", c.name, called)
			}
			if allowed := !slices.ContainsFunc(out, func(d sluice.Decision) bool { return !d.Allowed }); allowed != c.allowed {
				t.Errorf("%s: allowed %v", c.name, allowed)
			}
			if n := s.spentOf() - before; n != c.charged {
				t.Errorf("%s: charged %d, want %d", c.name, n, c.charged)
			}
		}
	})
}

// Batches with the same keys in any order do not wait for each other, and lose no unit.
func TestBatchesCompete(t *testing.T) {
	const keys, rounds, callers = 40, 300, 4
	onStage(t, slow(1_000_000, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		var charged [keys]atomic.Int64
		var all sync.WaitGroup
		for caller := range uint64(callers) {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, caller))
				for range rounds {
					order := random.Perm(keys)[:1+random.IntN(keys)]
					rs, out := make([]sluice.Request, len(order)), make([]sluice.Decision, len(order))
					for i, n := range order {
						rs[i] = sluice.Request{Limit: s.limit, Key: sluice.StringKey(fmt.Sprint(n)), Cost: 1}
					}
					if err := s.store.DecideAll(context.Background(), rs, out); err != nil {
						t.Error(err)
						return
					}
					for i, n := range order {
						if !out[i].Allowed {
							t.Errorf("request %d of %d: %+v", i, len(order), out[i])
						}
						charged[n].Add(1)
					}
					pass(time.Duration(random.IntN(int(ms))))
				}
			})
		}
		all.Wait()
		if st := s.stats(); st.Local < st.Exact {
			t.Errorf("%d decisions were local, and %d exact", st.Local, st.Exact)
		}
		if err := s.store.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.bank.mu.Lock()
		defer s.bank.mu.Unlock()
		for n := range charged {
			a := s.bank.account(s.limit, sluice.StringKey(fmt.Sprint(n)), s.bank.now())
			// A token or two come back meanwhile.
			if used := s.limit.Capacity() - floorDiv(a.free()); used > charged[n].Load() || used < charged[n].Load()-2 {
				t.Errorf("%d units of key %d are used, and %d were charged", used, n, charged[n].Load())
			}
		}
	})
}

// spentOf returns what the key has used in all: in the bank, and in hand.
func (s *stage) spentOf() int64 {
	s.Helper()
	synctest.Wait() // no claim is on its way
	n := s.used()
	for _, k := range s.store.Keys(2000) {
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

// A denial for the sake of earlier requests of a batch is not kept: by itself, the request is allowed.
func TestDenialsWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slow(1000, sluice.Hybrid{})
		store := open(t, granttest.New(granttest.Options{Clock: func() int64 { return time.Now().UnixMicro() }}), hybrid.Options{Seed: 1})
		for range 20 { // the key is hot
			take(t, store, l, 1)
			pass(ms)
		}
		r := sluice.Request{Limit: l, Key: key, Cost: 600}
		out := make([]sluice.Decision, 2)
		if err := store.DecideAll(context.Background(), []sluice.Request{r, r}, out); err != nil {
			t.Fatal(err)
		}
		if d := take(t, store, l, 600); !out[0].Allowed || out[1].Allowed || !d.Allowed {
			t.Errorf("%+v, then by itself: %+v", out, d)
		}
	})
}

// A charge in hand is corrected in hand, and a reported one by the wrapped store.
func TestSettlesInHandOrInTheStore(t *testing.T) {
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
func TestCancelsInHand(t *testing.T) {
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

// Cancel gives back nothing after the moment of the charge and reports that, as in any store. A local charge acts at once.
func TestCancelAfterTheCharge(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.1}), func(s *stage) {
		s.warm()
		r := sluice.Request{Limit: s.limit, Key: key, Cost: 3}
		before := s.spentOf()
		d, called := s.request(r)
		pass(time.Microsecond)
		if err := s.store.Cancel(context.Background(), r.Charge(&d)); !errors.Is(err, sluice.ErrActed) || called {
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
			s.Fatalf("two charges should be local and allowed: called %v %+v, called %v %+v", called, old, calledNow, now)
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
