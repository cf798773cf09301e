package hybrid_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/internal/algo"
)

const (
	ms     = time.Millisecond
	period = 100 * ms // between synchronisations, the default
)

// stage is a store over a bank in a bubble of virtual time.
type stage struct {
	*testing.T
	bank  *bank
	store *hybrid.Store
	limit *sluice.Limit
	ahead atomic.Int64 // of the wall clock, in nanoseconds
}

// onStage runs a test in virtual time.
func onStage(t *testing.T, limit *sluice.Limit, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, bank: newBank(t), limit: limit}
		s.store = open(t, s.bank, hybrid.Options{Holder: 1, Seed: 1, Wall: func() int64 {
			return time.Now().UnixNano() + s.ahead.Load()
		}})
		test(s)
		s.set(nil)
		pass(5 * time.Second)
		if err := hybrid.Check(s.store); err != nil {
			t.Error(err)
		}
	})
}

// request decides a request and reports whether that called the bank.
func (s *stage) request(r sluice.Request) (d sluice.Decision, called bool) {
	s.Helper()
	before := s.exchanges()
	if r.Limit == nil {
		r.Limit = s.limit
	}
	if r.Key.Len() == 0 {
		r.Key = key
	}
	d, err := s.store.Decide(context.Background(), r)
	if err != nil {
		s.Fatalf("Decide: %v", err)
	}
	return d, s.exchanges() != before
}

// exchanges returns how many calls the bank got.
func (s *stage) exchanges() int {
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	return s.bank.calls + s.bank.decides
}

// take makes n requests of one unit, each after a pause, and returns how many were allowed, and how
// many of the decisions called the bank.
func (s *stage) take(n int, pause time.Duration) (allowed, called int) {
	s.Helper()
	for range n {
		d, c := s.request(sluice.Request{Cost: 1})
		if d.Allowed {
			allowed++
		}
		if c {
			called++
		}
		pass(pause)
	}
	return allowed, called
}

// warm makes the key hot, with units in hand.
func (s *stage) warm() {
	s.Helper()
	s.take(100, ms)
	if s.held() == 0 {
		s.Fatal("nothing is in hand after a hundred requests")
	}
}

// held returns the units that the bank has in escrow for the key.
func (s *stage) held() int64 {
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	e, _ := s.bank.account(s.limit, key, s.bank.now()).escrow()
	return e
}

// used returns how many tokens are missing in the bank, without the escrow.
func (s *stage) used() int64 {
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	return s.limit.Capacity() - floorDiv(s.bank.account(s.limit, key, s.bank.now()).tokens)
}

// set sets the fault of the bank.
func (s *stage) set(fault func(ctx context.Context, claims []driver.Claim, handle func()) error) {
	s.bank.mu.Lock()
	defer s.bank.mu.Unlock()
	s.bank.fault = fault
}

func (s *stage) stats() hybrid.LimitStats {
	s.Helper()
	all := s.store.Stats()
	if len(all) != 1 {
		s.Fatalf("%d limits: %+v", len(all), all)
	}
	return all[0]
}

// slow is a limit whose tokens hardly come back.
func slow(burst int64, h sluice.Hybrid) *sluice.Limit { return bucket(1, burst, h) }

// Keys with few requests are decided by the wrapped store, with exact numbers.
func TestColdKeysAreExact(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{}), func(s *stage) {
		for i := range 50 {
			d, called := s.request(sluice.Request{Cost: 1})
			if !called || d.Remaining != 999-int64(i)+int64(i)/50 {
				t.Fatalf("request %d: called %v, %+v", i, called, d)
			}
			pass(20 * ms) // five in the time between synchronisations
			if i%50 == 49 {
				break
			}
		}
		if s.bank.calls > 0 {
			t.Errorf("%d claims", s.bank.calls)
		}
	})
}

// A key that is requested often is granted: hardly any decision calls the wrapped store.
func TestHotKeysAreGranted(t *testing.T) {
	onStage(t, bucket(100_000, 100_000, sluice.Hybrid{}), func(s *stage) {
		s.set(delayed(ms))
		s.take(1000, 100*time.Microsecond)
		before := s.exchanges()
		allowed, called := s.take(20_000, 100*time.Microsecond)
		calls := s.exchanges() - before
		if allowed != 20_000 || called > 100 || calls > 100 {
			t.Errorf("%d allowed, %d calls in 2 s, %d of them during a decision", allowed, calls, called)
		}
		st := s.stats()
		if st.Local < 20_000 || st.Local+st.Exact+st.Cached != 21_000 || st.Keys != 1 || st.GrantSize < 500 {
			t.Errorf("nearly all 21,000 decisions should be local: %+v", st)
		}
		if k := s.store.Keys(5); len(k) != 1 || k[0].Key != key || k[0].Holders != 1 || k[0].Unspent == 0 || k[0].Age <= 0 {
			t.Errorf("want one granted key with its unspent units, got %+v", k)
		}
	})
}

// No request of a steady load waits for units: they are claimed before the last one is spent.
func TestUnitsAreFetchedAhead(t *testing.T) {
	onStage(t, bucket(100_000, 100_000, sluice.Hybrid{}), func(s *stage) {
		s.set(delayed(5 * ms))
		s.take(2000, 100*time.Microsecond)
		waited := 0
		for range 10_000 {
			began := time.Now()
			s.request(sluice.Request{Cost: 1})
			if time.Since(began) > 0 {
				waited++
			}
			pass(100 * time.Microsecond)
		}
		if waited > 10 {
			t.Errorf("%d of 10,000 requests waited for units", waited)
		}
	})
}

// A denial also denies requests for more units, or with a higher floor, for up to 100 ms.
func TestDenialsAreKept(t *testing.T) {
	limit := bucket(1, 1000, sluice.Hybrid{Stranded: 0.001}) // a unit in hand at most
	for _, c := range []struct {
		name        string
		after       time.Duration
		cost, floor int64
		called      bool
	}{
		{"the same", 0, 5, 10, false},
		{"a larger cost", 0, 6, 10, false},
		{"a higher floor", 0, 5, 11, false},
		{"a smaller cost", 0, 4, 10, true},
		{"a lower floor", 0, 5, 9, true},
		{"before 7/8 of 100 ms", 87 * ms, 5, 10, false},
		{"after 100 ms", 101 * ms, 5, 10, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, limit, func(s *stage) {
				s.take(50, ms)
				if err := s.store.Reset(context.Background(), limit, key); err != nil {
					t.Fatal(err)
				}
				s.bank.mu.Lock()
				s.bank.account(limit, key, s.bank.now()).tokens = 14 * million
				s.bank.mu.Unlock()
				if d, called := s.request(sluice.Request{Cost: 5, Floor: 10}); d.Allowed || !called {
					t.Fatalf("called %v: %+v", called, d)
				}
				pass(c.after)
				d, called := s.request(sluice.Request{Cost: c.cost, Floor: c.floor})
				if called != c.called {
					t.Errorf("called %v: %+v", called, d)
				}
				if !called && (d.Allowed || d.RetryAfter <= 0 || d.Limit != 1000 || d.Reason != sluice.ReasonLimited) {
					t.Errorf("the kept denial should have its wait and limit: %+v", d)
				}
			})
		})
	}
}

// A reset ends the denials that a process has kept, and so do units that are given back, and changed limits.
func TestDenialsEnd(t *testing.T) {
	const burst = 20
	for name, end := range map[string]func(s *stage){
		"reset": func(s *stage) {
			if err := s.store.Reset(context.Background(), s.limit, key); err != nil {
				s.Fatal(err)
			}
		},
		"units given back": func(s *stage) {
			newest := sluice.Charge{Limit: s.limit, Key: key, Cost: 1, Receipt: sluice.Receipt{At: algo.Newest}}
			if err := s.store.Settle(context.Background(), newest, 0); err != nil {
				s.Fatal(err)
			}
		},
		"changed limits": func(s *stage) { s.limit = slow(100*burst, sluice.Hybrid{Stranded: 0.5}) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, slow(burst, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
				if allowed, _ := s.take(burst+20, 0); allowed != burst {
					s.Fatalf("%d requests were allowed, want %d", allowed, burst)
				}
				synctest.Wait() // a claim that these requests have caused is not a call of the next one
				if d, called := s.request(sluice.Request{Cost: 1}); called || d.Allowed {
					s.Fatalf("the denial is not kept: called %v, %+v", called, d)
				}
				synctest.Wait()
				end(s)
				if d, called := s.request(sluice.Request{Cost: 1}); !called || !d.Allowed && name != "changed limits" {
					s.Errorf("the denial has not ended: called %v, %+v", called, d)
				}
			})
		})
	}
}

// While units are short, requests wait for the claim on its way. After a reset its answer is of no use, so they do not wait
// for it then.
func TestResetsDoNotWaitForClaims(t *testing.T) {
	onStage(t, slow(20, sluice.Hybrid{Stranded: 0.5}), func(s *stage) {
		s.take(40, 0)
		var onItsWay atomic.Bool
		s.set(func(_ context.Context, claims []driver.Claim, handle func()) error {
			if claims[0].Take == 0 {
				onItsWay.Store(true)
				pass(20 * ms)
			}
			handle()
			return nil
		})
		for range 1000 {
			if _, _ = s.request(sluice.Request{Cost: 1}); onItsWay.Load() {
				break
			}
			pass(ms)
		}
		if d, called := s.request(sluice.Request{Cost: 1}); !onItsWay.Load() || called || d.Allowed {
			s.Fatalf("the request does not wait for a claim: a claim on its way %v, called %v, %+v", onItsWay.Load(), called, d)
		}
		if err := s.store.Reset(context.Background(), s.limit, key); err != nil {
			s.Fatal(err)
		}
		if d, called := s.request(sluice.Request{Cost: 1}); !called || !d.Allowed {
			s.Errorf("the key is reset: called %v, %+v", called, d)
		}
	})
}

// One process admits exactly what the limit has: units in hand that do not suffice for a request
// go back in the claim for it.
func TestOneProcessIsExact(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 1}), func(s *stage) {
		sum := int64(0)
		for i := range 2000 {
			n := int64(1 + i*7%13)
			if d, _ := s.request(sluice.Request{Cost: n}); d.Allowed {
				sum += n
			}
		}
		for range 200 {
			if d, _ := s.request(sluice.Request{Cost: 1}); d.Allowed {
				sum++
			}
			pass(ms)
		}
		if sum != 1000 {
			t.Errorf("%d units of 1000", sum)
		}
	})
}

// A process that gets no more requests returns its units within two synchronisations.
func TestIdleUnitsReturn(t *testing.T) {
	onStage(t, bucket(10_000, 10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		pass(2 * period)
		if n := s.held(); n != 0 {
			t.Errorf("%d units are still in hand", n)
		}
		if st := s.stats(); st.Returned == 0 || st.Unspent != 0 || st.Unreported != 0 {
			t.Errorf("want all units returned and reported, got %+v", st)
		}
		before := s.exchanges()
		pass(time.Minute)
		if n := s.exchanges() - before; n > 0 {
			t.Errorf("%d calls without requests", n)
		}
	})
}

// A process whose last requests are few goes back to exact decisions.
func TestHotKeysCool(t *testing.T) {
	onStage(t, bucket(10_000, 10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		s.take(20, 90*ms)
		if n := s.held(); n != 0 {
			t.Errorf("%d units are in hand", n)
		}
		if _, called := s.take(10, 90*ms); called != 10 {
			t.Errorf("%d of 10 requests were exact", called)
		}
	})
}

// Drain reports and returns all, and later requests are exact.
func TestDrainReturnsAllUnits(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		if err := s.store.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if held, used := s.held(), s.used(); held != 0 || used != 100 {
			t.Errorf("%d units in hand, %d used", held, used)
		}
		if _, called := s.take(50, ms); called != 50 {
			t.Errorf("%d of 50 requests were exact", called)
		}
	})
}

// Drain gives up when its context ends.
func TestDrainGivesUp(t *testing.T) {
	onStage(t, slow(10_000, sluice.Hybrid{}), func(s *stage) {
		s.warm()
		s.set(hang)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.store.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// hang does not answer before its context ends.
func hang(ctx context.Context, _ []driver.Claim, _ func()) error {
	<-ctx.Done()
	return errors.Join(ctx.Err(), sluice.ErrUnknownOutcome)
}

// A later request of higher importance may take what is in hand, and a less important one only units
// that were granted above its floor.
func TestFloorsHoldForUnitsInHand(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.2}), func(s *stage) {
		s.warm() // 900 are left
		s.take(1, 0)
		if d, called := s.request(sluice.Request{Cost: 1, Floor: 500}); called || !d.Allowed {
			t.Errorf("far above the floor: called %v, %+v", called, d)
		}
		if d, called := s.request(sluice.Request{Cost: 1, Floor: 950}); !called || d.Allowed {
			t.Errorf("below the floor: called %v, %+v", called, d)
		}
		if d, called := s.request(sluice.Request{Cost: 1}); called || !d.Allowed {
			t.Errorf("without a floor: called %v, %+v", called, d)
		}
	})
}

// A peek allows what is in hand and takes nothing. Otherwise it is the wrapped store's.
func TestPeeksTakeNothingInHand(t *testing.T) {
	onStage(t, slow(1000, sluice.Hybrid{Stranded: 0.2}), func(s *stage) {
		s.warm()
		d, called := s.request(sluice.Request{Cost: 1, Peek: true})
		again, _ := s.request(sluice.Request{Cost: 1, Peek: true})
		if called || !d.Allowed || d.Remaining < 1 || d.Remaining > 200 || d != again {
			t.Errorf("called %v, %+v, then %+v", called, d, again)
		}
		if d, called := s.request(sluice.Request{Cost: 500, Peek: true}); !called || !d.Allowed {
			t.Errorf("more than in hand: called %v, %+v", called, d)
		}
	})
}

// A key that is synchronised seldom does not delay another one.
func TestPeriodsDiffer(t *testing.T) {
	onStage(t, bucket(10_000, 10_000, sluice.Hybrid{Sync: 10 * time.Second}), func(s *stage) {
		s.take(100, ms)
		quick, err := sluice.MustLimit("quick", s.limit.Algorithm()).WithHybrid(sluice.Hybrid{Sync: 10 * ms})
		if err != nil {
			t.Fatal(err)
		}
		s.limit = quick
		s.take(100, ms/4)
		pass(20 * ms)
		if n := s.held(); n != 0 {
			t.Errorf("%d units are still in hand", n)
		}
	})
}

// Stats has the bounds in force. Spends leave a sliding window up to a synchronisation and a quarter later.
func TestBoundsInForce(t *testing.T) {
	rate := sluice.Per(6000, time.Minute)
	for _, c := range []struct {
		algorithm   sluice.Algorithm
		over, under int64
	}{
		{sluice.TokenBucket{Rate: rate}, 17, 300 + 11},
		{sluice.FixedWindow{Rate: rate}, 17, 300 + 11},
		{sluice.SlidingWindow{Rate: rate}, 17, 300 + 36},
		{sluice.SlidingCounter{Rate: rate}, 17, 300 + 36},
		{sluice.SlidingLog{Rate: rate}, 17, 300 + 36},
	} {
		limit, err := sluice.MustLimit("limit", c.algorithm).WithHybrid(sluice.Hybrid{Sync: 200 * ms, Overdraft: 7, Credit: 10})
		if err != nil {
			t.Fatal(err)
		}
		onStage(t, limit, func(s *stage) {
			s.request(sluice.Request{Cost: 1})
			if st := s.stats(); st.Over != c.over || st.Under != c.under {
				s.Errorf("%v: over %d, want %d; under %d, want %d", limit, st.Over, c.over, st.Under, c.under)
			}
		})
	}
}

// A store forgets limits that no key uses. While all are in use, it does not look at all of them for each
// new one.
func TestUnusedLimitsAreForgotten(t *testing.T) {
	const most, inUse, made = 1024, 3000, 20_000
	onStage(t, bucket(1, 10, sluice.Hybrid{Stranded: 0.1}), func(s *stage) {
		store := open(s.T, s.bank, hybrid.Options{MaxKeys: 2 * inUse, Seed: 1})
		looks, before := 0, 0
		for i := range made {
			limit := bucket(1, 10, sluice.Hybrid{Stranded: 0.1})
			k := sluice.StringKey(strconv.Itoa(i % inUse)) // whose limit was another one
			if _, err := store.Decide(context.Background(), sluice.Request{Limit: limit, Key: k, Cost: 1}); err != nil {
				s.Fatal(err)
			}
			known, full := hybrid.Limits(store)
			if known > 2*inUse+most {
				s.Fatalf("%d limits are known, and %d are in use", known, min(i+1, inUse))
			}
			if full != before {
				looks, before = looks+1, full
			}
		}
		if known, full := hybrid.Limits(store); known >= full || looks > 20 {
			s.Errorf("%d limits are known, the next look is at %d, after %d looks", known, full, looks)
		}
	})
}
