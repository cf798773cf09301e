package hybrid_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
)

// A process goes on spending while the store does not answer, until its grant ends by either clock.
func TestGrantsEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		passes time.Duration // by both clocks
		ahead  time.Duration // by which the wall clock is ahead then
		local  bool
	}{
		{"at once", 0, 0, true},
		{"before the end", 1800 * ms, 0, true},
		{"at the end", 2000 * ms, 0, false},
		{"less than the margin before the end", 1990 * ms, 0, false},
		{"after a suspension", 0, 2 * time.Second, false},
		{"after a short suspension", 0, 1800 * ms, true},
		{"in part suspended", 1000 * ms, 1000 * ms, false},
		{"the wall clock was set back", 0, -time.Hour, true},
		{"the wall clock was set back, and it ended", 2000 * ms, -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, bucket(10_000, 100_000, sluice.Hybrid{}), func(s *stage) {
				s.warm()
				for {
					if _, called := s.request(sluice.Request{Cost: 1}); called {
						break // a grant begins now
					}
				}
				synctest.Wait() // its claim is answered
				began := time.Now()
				s.set(hang)
				for time.Since(began) < c.passes {
					s.store.DecideLocally(sluice.Request{Limit: s.limit, Key: key, Cost: 1}) // an idle process returns units
					pass(min(20*ms, c.passes-time.Since(began)))
				}
				s.ahead.Store(int64(c.ahead))
				if _, ok := s.store.DecideLocally(sluice.Request{Limit: s.limit, Key: key, Cost: 1}); ok != c.local {
					t.Errorf("decided locally: %v", ok)
				}
				s.ahead.Store(0)
			})
		})
	}
}

// A claim whose answer was lost is repeated unchanged, and grants once.
func TestLostAnswers(t *testing.T) {
	for name, handled := range map[string]bool{"before the store": false, "after the store": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, bucket(10_000, 10_000, sluice.Hybrid{}), func(s *stage) {
				s.warm()
				var lost []driver.Claim
				s.set(func(_ context.Context, claims []driver.Claim, handle func()) error {
					if handled {
						handle()
					}
					lost = append(lost, claims...)
					return errLost
				})
				s.take(50, 10*ms)
				if len(lost) < 2 {
					t.Fatalf("%d claims were lost", len(lost))
				}
				for _, c := range lost[1:] {
					if c != lost[0] {
						t.Errorf("first %+v\nthen %+v", lost[0], c)
					}
				}
				s.set(nil)
				pass(3 * time.Second)
				st := s.stats()
				if st.Unreported != 0 || st.Unspent != 0 || s.held() != 0 || st.Granted != st.Spent+st.Returned+st.Expired {
					t.Errorf("%d units in hand: %+v", s.held(), st)
				}
			})
		})
	}
}

// A claim that the store refused surely is not repeated.
func TestRefusedClaims(t *testing.T) {
	onStage(t, bucket(10_000, 10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		seqs := map[uint64]int{}
		s.set(func(_ context.Context, claims []driver.Claim, _ func()) error {
			for _, c := range claims {
				seqs[c.Seq]++
			}
			return errors.New("bank: refused")
		})
		for range 100 {
			_, _ = s.store.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: key, Cost: 1})
			pass(10 * ms)
		}
		for seq, n := range seqs {
			if n != 1 {
				t.Errorf("claim %d was made %d times", seq, n)
			}
		}
		s.set(nil)
		pass(3 * time.Second)
		if st := s.stats(); s.held() != 0 || st.Unreported != 0 {
			t.Errorf("%d units in hand: %+v", s.held(), st)
		}
	})
}

// A caller whose context ends during its claim gets an unknown outcome; a caller that waits for the
// claim of another one has taken nothing.
func TestCallersThatLeaveTakeNothing(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{}), func(s *stage) {
		s.take(7, 0)
		s.set(hang)
		decide := func(patience time.Duration) chan error {
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				_, err := s.store.Decide(ctx, sluice.Request{Limit: s.limit, Key: key, Cost: 1})
				done <- err
			}()
			return done
		}
		claimer := decide(50 * ms)
		synctest.Wait()
		waiter := decide(ms / 2)
		if err := <-waiter; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Errorf("the caller that waits: %v", err)
		}
		if err := <-claimer; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Errorf("the caller that claims: %v", err)
		}
		if d, called := s.request(sluice.Request{Cost: 1}); !called || !d.Allowed {
			t.Errorf("while the claim is repeated: called %v, %+v", called, d)
		}
		s.set(nil)
		pass(3 * time.Second)
		if used := s.used(); used != 9-3 { // three have come back since
			t.Errorf("%d units are used, want 9 less 3", used)
		}
	})
}

// Waiters get units of the claim they wait for; each makes a call of its own if it takes too long.
func TestWaitersGetUnitsOfTheirClaim(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{}), func(s *stage) {
		s.take(7, 0)
		for _, trip := range []time.Duration{ms / 2, 200 * ms} {
			s.set(delayed(trip))
			before := s.exchanges()
			done := make(chan time.Duration, 20)
			began := time.Now()
			for range cap(done) {
				go func() {
					_, _ = s.store.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: key, Cost: 1})
					done <- time.Since(began)
				}()
			}
			var all []time.Duration
			for range cap(done) {
				all = append(all, <-done)
			}
			slices.Sort(all)
			calls := s.exchanges() - before
			t.Logf("%v: %d calls, %v to %v", trip, calls, all[0], all[len(all)-1])
			switch {
			case trip < ms && calls > 2:
				t.Errorf("%d calls", calls)
			case trip > ms && all[len(all)-2] > 50*ms:
				t.Errorf("the requests took up to %v", all[len(all)-2])
			}
			if err := s.store.Drain(context.Background()); err != nil {
				t.Fatal(err)
			}
			if trip < ms { // another store, with the units of the first returned
				s.store = open(s.T, s.bank, hybrid.Options{Holder: 2, Seed: 1})
				s.take(7, 0)
			}
		}
	})
}

// Close ends a store whose calls hang, and all callers.
func TestCloseDuringCalls(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		s.set(hang)
		ctx, cancel := context.WithCancel(context.Background())
		errs := make(chan error, 20)
		for range cap(errs) {
			go func() {
				for {
					if _, err := s.store.Decide(ctx, sluice.Request{Limit: s.limit, Key: key, Cost: 1}); err != nil {
						errs <- err
						return
					}
					pass(ms)
				}
			}()
		}
		pass(300 * ms)
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
		pass(10 * ms)
		cancel() // for callers whose own claims hang
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, sluice.ErrClosed) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// A store that ignores the context of its calls keeps neither other callers nor other keys waiting:
// only the caller whose own claim it is. Package guard leaves such a call behind.
func TestStoreThatHangs(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{}), func(s *stage) {
		release := make(chan struct{})
		s.warm()
		s.set(func(context.Context, []driver.Claim, func()) error {
			<-release
			return errLost
		})
		other := func(k sluice.Key) {
			began := time.Now()
			s.request(sluice.Request{Key: k, Cost: 100})
			if took := time.Since(began); took > 20*ms {
				t.Errorf("a request took %v", took)
			}
		}
		go func() {
			_, _ = s.store.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: key, Cost: 100})
		}()
		synctest.Wait()
		for range 100 {
			other(key)
			pass(5 * ms)
		}
		for i := range 100 {
			other(sluice.StringKey(string(rune('a' + i%20))))
		}
		close(release)
	})
}

// A process that starts again with the number of an earlier one spends nothing of its units.
func TestSameHolderAgain(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "later": time.Second, "with an earlier clock": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			onStage(t, slow(1000, sluice.Hybrid{Stranded: 1}), func(s *stage) {
				first, _ := s.take(100, ms)
				if err := s.store.Close(); err != nil { // without a drain
					t.Fatal(err)
				}
				pass(max(0, later))
				s.store = open(s.T, s.bank, hybrid.Options{Holder: 1, Seed: 2, Wall: func() int64 {
					return time.Now().Add(min(0, later)).UnixNano()
				}})
				second, _ := s.take(3000, ms)
				if sum := first + second; sum > 1000+4+1 {
					t.Errorf("%d units of 1000, and four seconds", sum)
				}
			})
		})
	}
}

// A store that panics in the background does not end the program. The claim has an unknown outcome.
func TestStoreThatPanics(t *testing.T) {
	onStage(t, bucket(10_000, 10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		panics := 0
		s.set(func(context.Context, []driver.Claim, func()) error {
			panics++
			panic("bank")
		})
		pass(period) // idle: the units go back
		pass(period)
		s.set(nil)
		pass(3 * time.Second)
		if n := s.held(); panics == 0 || n != 0 {
			t.Errorf("%d panics, %d units in hand", panics, n)
		}
	})
}
