package hybrid_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
)

// Credit is spent without a call, even by a key's first request. It comes back when it has been
// reported and the key is not in excess.
func TestCreditIsSpentWithoutACall(t *testing.T) {
	onStage(t, slow(100, sluice.Hybrid{Credit: 5}), func(s *stage) {
		for round := range 3 {
			if allowed, called := s.take(5, 0); allowed != 5 || called != 0 {
				t.Fatalf("round %d: %d allowed, %d calls", round, allowed, called)
			}
			if d, called := s.request(sluice.Request{Cost: 1}); !called || !d.Allowed {
				t.Fatalf("round %d: after the credit: called %v, %+v", round, called, d)
			}
			if st := s.stats(); st.Unreported != 5 || st.Over != 5 {
				t.Fatalf("round %d: %+v", round, st)
			}
			pass(2 * period)
			if st := s.stats(); st.Unreported != 0 || s.used() != int64(6*(round+1)) {
				t.Fatalf("round %d: %d used, %+v", round, s.used(), st)
			}
		}
	})
}

// Credit that has led into excess does not come back before the excess is gone. The bound is one
// credit for each process.
func TestCreditIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, credit, burst = 4, 50, 100
		b := newBank(t)
		limit := bucket(10, burst, sluice.Hybrid{Credit: credit})
		m := newMeter(limit)
		var stores []*hybrid.Store
		for p := range processes {
			stores = append(stores, open(t, b, hybrid.Options{Holder: uint64(p + 1), Seed: 1}))
		}
		for range 1000 {
			for _, s := range stores {
				for range 5 {
					if d := take(t, s, limit, 1); d.Allowed {
						m.spend(time.Now().UnixMicro(), 1)
					}
				}
				if err := hybrid.Check(s); err != nil {
					t.Fatal(err)
				}
			}
			pass(10 * ms)
		}
		if m.excess > processes*credit || m.excess < credit || m.total < burst+100 {
			t.Errorf("%.1f units more than the limit: %d in all", m.excess, m.total)
		}
		for _, s := range stores {
			st := s.Stats()[0]
			if st.Excess > st.Over || float64(st.Over) < m.excess {
				t.Errorf("%.1f units in excess: %+v", m.excess, st)
			}
		}
	})
}

// Credit equal to the limit is counting locally with periodic synchronisation: while the key is not
// in excess, no request waits for the store.
func TestCreditEqualToTheLimit(t *testing.T) {
	onStage(t, bucket(1000, 1000, sluice.Hybrid{Credit: 1000}), func(s *stage) {
		s.set(delayed(20 * ms))
		waited := 0
		for range 4000 {
			began := time.Now()
			if d, _ := s.request(sluice.Request{Cost: 1}); !d.Allowed {
				t.Fatalf("a request within the credit was denied: %+v", d)
			}
			if time.Since(began) > 0 {
				waited++
			}
			pass(1250 * time.Microsecond)
		}
		if waited > 0 {
			t.Errorf("%d requests waited", waited)
		}
	})
}

// A store counts a bounded number of keys. It forgets no key with units or credit in use.
func TestBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t)
		s := open(t, b, hybrid.Options{MaxKeys: 64, Seed: 1})
		granted, credit := bucket(10_000, 10_000, sluice.Hybrid{}), bucket(1, 10, sluice.Hybrid{Stranded: 0.1, Credit: 10})
		credit, _ = sluice.MustLimit("credit", credit.Algorithm()).WithHybrid(*credit.Hybrid())
		decide := func(l *sluice.Limit, k string) bool {
			d, err := s.Decide(context.Background(), sluice.Request{Limit: l, Key: sluice.StringKey(k), Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		}
		m := newMeter(credit)
		for i := range 2000 {
			if decide(credit, "credit") {
				m.spend(time.Now().UnixMicro(), 1)
			}
			for range 5 {
				decide(granted, "hot")
			}
			for j := range 10 {
				decide(granted, strconv.Itoa(10*i+j))
			}
			if err := hybrid.Check(s); err != nil {
				t.Fatal(err)
			}
			pass(ms)
		}
		keys, local := 0, uint64(0)
		for _, st := range s.Stats() {
			keys += st.Keys
			local += st.Local
		}
		if keys > 64 || local < 9000 {
			t.Errorf("%d keys, %d local decisions", keys, local)
		}
		if m.excess > 10 {
			t.Errorf("%.1f units in excess of a credit of 10", m.excess)
		}
	})
}

// What was spent on credit beyond the first grant is reported, even if the process reaches the store
// only after that grant: the store then has counted no more than the grant.
func TestCreditBeyondAGrantIsReported(t *testing.T) {
	const escrow, credit, cost = 5, 100, 101
	onStage(t, slow(10_000, sluice.Hybrid{Credit: credit, Stranded: escrow / 10_000.0}), func(s *stage) {
		for range 7 { // more than the credit: exact
			s.request(sluice.Request{Cost: cost})
		}
		s.set(delayed(100 * ms))
		done := make(chan bool)
		go func() {
			d, err := s.store.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: key, Cost: cost})
			done <- err == nil && d.Allowed
		}()
		pass(ms) // its claim, which gets the first grant, is on its way
		allowed, called := s.take(credit, ms/2)
		if !<-done || allowed != credit || called > 0 {
			s.Fatalf("%d allowed on credit, %d calls", allowed, called)
		}
		if n := s.held(); n < 1 || n > escrow {
			s.Fatalf("%d units in escrow", n)
		}
		s.set(func(context.Context, []driver.Claim, func()) error { return sluice.ErrUnknownOutcome })
		pass(3 * time.Second)
		s.set(nil)
		pass(2 * time.Second)
		if n, want := s.used(), int64(8*cost+credit); n < want-10 || n > want { // a token a second comes back
			s.Errorf("%d units are spent, and %d are used in the store", want, n)
		}
	})
}

// A key that has spent its credit into excess is not forgotten before all its units are back. It
// would get new credit otherwise.
func TestSpentCreditIsNotForgotten(t *testing.T) {
	onStage(t, slow(10, sluice.Hybrid{Stranded: 0.1, Credit: 10}), func(s *stage) {
		store := open(s.T, s.bank, hybrid.Options{MaxKeys: 16, Seed: 1})
		decide := func(k sluice.Key) bool {
			d, err := store.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: k, Cost: 1})
			if err != nil {
				s.Fatal(err)
			}
			return d.Allowed
		}
		m := newMeter(s.limit)
		for round := range 10 {
			for range 400 {
				if decide(key) {
					m.spend(time.Now().UnixMicro(), 1)
				}
				pass(ms)
			}
			pass(200 * ms)
			for i := range 256 {
				decide(sluice.StringKey(strconv.Itoa(1000*round + i)))
			}
		}
		if m.excess > 10 {
			s.Errorf("%.1f units in excess of a credit of 10", m.excess)
		}
	})
}
