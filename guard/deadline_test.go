package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// Whatever the store does, the answer is there by the deadline, and what is left behind
// stays counted until it returns.
func TestDecisionsComeByTheDeadline(t *testing.T) {
	for _, c := range []struct {
		name   string
		inline bool
		heeds  bool
	}{{"ignored", false, false}, {"heeded", false, true}, {"inline", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{Inline: c.inline, Default: sluice.FallbackAllow})
				release := make(chan struct{})
				h.fake.set(heedful)
				if !c.heeds {
					h.fake.set(hung(release))
				}
				for i := range 9 { // one fewer than open the breaker
					began := time.Now()
					d := h.take(other, 1)
					took := time.Since(began)
					if !d.Allowed || !d.Degraded || took > 50*time.Millisecond || took < 48*time.Millisecond {
						t.Fatalf("call %d took %v: %+v", i, took, d)
					}
					pass(time.Duration(i) * 400 * time.Microsecond)
				}
				synctest.Wait()
				want := 9
				if c.heeds {
					want = 0
				}
				if st := h.Stats(); st.InFlight != want || st.Failed != 9 || st.Late != 9 || !errors.Is(st.Last, guard.ErrLate) {
					t.Errorf("left behind: %+v", st)
				}
				close(release)
				synctest.Wait()
				if st := h.Stats(); st.InFlight != 0 || st.Answered != 0 {
					t.Errorf("returned: %+v", st)
				}
			})
		})
	}
}

// Calls that begin at about the same time share a deadline, which no other's is far from.
func TestSharedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Deadline: 320 * time.Millisecond, Failures: 1000})
		h.fake.set(heedful)
		var wg sync.WaitGroup
		ends := map[time.Time]bool{}
		var mu sync.Mutex
		for range 100 {
			wg.Go(func() {
				began := time.Now()
				h.take(other, 1)
				if took := time.Since(began); took > 320*time.Millisecond || took < 310*time.Millisecond {
					t.Errorf("a call took %v", took)
				}
				mu.Lock()
				ends[time.Now()] = true
				mu.Unlock()
			})
			pass(time.Millisecond)
		}
		wg.Wait()
		if len(ends) != 10 {
			t.Errorf("calls of 100ms ended at %d moments, want 10", len(ends))
		}
	})
}

// The error of an end without an answer in time wraps ErrUnknownOutcome.
func TestDeadlineOfEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		r := sluice.Request{Limit: other, Key: key, Cost: 1}
		d := h.decide(r)
		release := make(chan struct{})
		h.fake.set(hung(release))
		err := h.Cancel(t.Context(), r.Charge(&d))
		if !errors.Is(err, guard.ErrLate) || !errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Errorf("canceling: %v", err)
		}
		close(release)
	})
}

// A batch that was left behind writes nowhere that its caller looks.
func TestBatchLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackDeny})
		rs := []sluice.Request{{Limit: other, Key: key, Cost: 1}, {Limit: other, Key: key, Cost: 2}}
		out := make([]sluice.Decision, 2)
		release := make(chan struct{})
		h.fake.set(hung(release))
		if err := h.DecideAll(t.Context(), rs, out); err != nil {
			t.Fatal(err)
		}
		clear(rs)
		close(release)
		synctest.Wait()
		if got := used(t, h.fake.Store, other); got != 3 {
			t.Errorf("the call charged %d, want the 3 it was made with", got)
		}
		for i, d := range out {
			if d.Allowed || !d.Degraded {
				t.Errorf("decision %d: %+v", i, d)
			}
		}
	})
}

// Beyond the cap nobody waits.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{MaxInFlight: 4, Default: sluice.FallbackAllow})
		release := make(chan struct{})
		h.fake.set(hung(release))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { h.take(other, 1) })
		}
		synctest.Wait()
		began := time.Now()
		for range 1000 {
			if d := h.take(other, 1); !d.Degraded {
				t.Fatalf("a call above the cap reached the store: %+v", d)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("calls beyond the cap took %v", took)
		}
		if err := h.Reset(t.Context(), other, key); !errors.Is(err, guard.ErrBusy) {
			t.Errorf("a reset beyond the cap: %v", err)
		}
		wg.Wait()
		// The deadline has passed, and the calls are still there.
		h.take(other, 1)
		if n := h.fake.calls.Load(); n != 4 {
			t.Errorf("%d calls, want 4", n)
		}
		if st := h.Stats(); st.InFlight != 4 || st.Shed != 1002 || st.State != guard.StateClosed {
			t.Errorf("want 4 calls in flight and 1002 shed, got %+v", st)
		}
		h.fake.set(nil)
		close(release)
		synctest.Wait()
		if d := h.take(other, 1); d.Degraded || h.Stats().InFlight != 0 {
			t.Errorf("when they have returned: %+v", d)
		}
	})
}

// What ends the caller's own context soon is the caller's error, and says nothing of the store.
func TestCallersContext(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(fmt.Sprintf("inline=%v", inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{Inline: inline})
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := h.Decide(gone, sluice.Request{Limit: other, Cost: 1}); !errors.Is(err, context.Canceled) || errors.Is(err, sluice.ErrUnknownOutcome) {
					t.Errorf("with a context that had ended: %v", err)
				}
				if n := h.fake.calls.Load(); n != 0 {
					t.Errorf("%d calls with a context that had ended", n)
				}
				h.fake.set(heedful)
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), 12*time.Millisecond)
					began := time.Now()
					_, err := h.Decide(ctx, sluice.Request{Limit: other, Cost: 1})
					if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 12*time.Millisecond {
						t.Fatalf("after %v: %v", took, err)
					}
					cancel()
				}
				if st := h.Stats(); st.State != guard.StateClosed || st.Failed != 0 || st.GivenUp != 50 || st.Last != nil {
					t.Errorf("50 callers gave up, but the store counts as failing: %+v", st)
				}
			})
		})
	}
	t.Run("canceled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := build(t, guard.Options{})
			release := make(chan struct{})
			h.fake.set(hung(release))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Millisecond, cancel)
			began := time.Now()
			_, err := h.Decide(ctx, sluice.Request{Limit: other, Cost: 1})
			if took := time.Since(began); !errors.Is(err, context.Canceled) || !errors.Is(err, sluice.ErrUnknownOutcome) || took != 5*time.Millisecond {
				t.Errorf("after %v: %v", took, err)
			}
			close(release)
		})
	})
}

// A store that answers no call is failing, even if the deadlines of all callers are shorter
// than the guard's. The fallback decides for later callers.
func TestCallersDeadlines(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(fmt.Sprintf("inline=%v", inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{Inline: inline})
				hasty := func() (sluice.Decision, error) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					return h.Decide(ctx, sluice.Request{Limit: other, Cost: 1})
				}
				h.fake.set(heedful)
				for range 10 {
					if _, err := hasty(); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("a caller that left: %v", err)
					}
				}
				if st := h.Stats(); st.State != guard.StateOpen || st.GivenUp != 10 || !errors.Is(st.Last, guard.ErrLate) {
					t.Fatalf("ten calls without an answer should open the breaker, got %+v", st)
				}
				if d, err := hasty(); err != nil || !d.Degraded {
					t.Errorf("after the breaker opened: %+v, %v; want a fallback", d, err)
				}
				h.fake.set(nil)
				pass(600 * time.Millisecond)
				if d, err := hasty(); err != nil || d.Degraded || h.State() != guard.StateClosed {
					t.Errorf("%+v, %v, %v; want the store's answer again", d, err, h.State())
				}
			})
		})
	}
}

// A store that answers other calls meanwhile is not failing, although callers leave.
func TestCallersDeadlinesAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		for range 50 {
			h.fake.set(heedful)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			left := make(chan error)
			go func() {
				_, err := h.Decide(ctx, sluice.Request{Limit: other, Cost: 1})
				left <- err
			}()
			synctest.Wait()
			h.fake.set(nil)
			if d, err := h.Decide(t.Context(), sluice.Request{Limit: other, Cost: 1}); err != nil || d.Degraded {
				t.Fatalf("a call of a working store: %+v, %v", d, err)
			}
			if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if st := h.Stats(); st.State != guard.StateClosed || st.Failed != 0 || st.GivenUp != 50 || st.Last != nil {
			t.Errorf("50 callers left, but the store counts as failing: %+v", st)
		}
	})
}

// A store that had its time and did not use it is failing, also for callers that left.
func TestCallersThatLeaveShowAFailingStore(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     guard.Options
		after time.Duration
		open  bool
	}{
		{"inline", guard.Options{Inline: true}, 10 * time.Millisecond, true},
		{"alone", guard.Options{}, 10 * time.Millisecond, false},
		{"after it was slow", guard.Options{Slow: 10 * time.Millisecond}, 10 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, c.o)
				h.fake.set(heedful)
				for range 10 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(c.after, cancel)
					if _, err := h.Decide(ctx, sluice.Request{Limit: other, Cost: 1}); !errors.Is(err, context.Canceled) {
						t.Fatalf("got %v", err)
					}
				}
				if st := h.Stats(); (st.State == guard.StateOpen) != c.open || st.GivenUp != 10 {
					t.Errorf("the breaker should be open: %v, got %+v", c.open, h.Stats())
				}
				pass(50 * time.Millisecond) // what was left behind has a deadline too
				synctest.Wait()
				if st := h.Stats(); st.InFlight != 0 {
					t.Errorf("calls that were left are in flight after their deadline: %+v", st)
				}
			})
		})
	}
}

// The store sees the values of the caller's context and a deadline, and can make
// contexts of its own from it.
func TestContextOfCall(t *testing.T) {
	type name struct{}
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		seen := 0
		h.fake.set(func(ctx context.Context) error {
			seen++
			at, ok := ctx.Deadline()
			if left := time.Until(at); !ok || left > 50*time.Millisecond || left < 48*time.Millisecond {
				t.Errorf("the deadline is in %v", left)
			}
			if ctx.Value(name{}) != "value" || ctx.Value(key) != nil {
				t.Error("the values of the caller are lost")
			}
			before := runtime.NumGoroutine()
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			if n := runtime.NumGoroutine() - before; n != 0 {
				t.Errorf("a context of its own takes %d goroutines", n)
			}
			<-own.Done()
			return own.Err()
		})
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), name{}, "value"))
		defer cancel()
		for range 3 {
			if d, err := h.Decide(caller, sluice.Request{Limit: other, Key: key, Cost: 1}); err != nil || !d.Degraded {
				t.Fatalf("a call that fails: %+v, %v; want a fallback", d, err)
			}
		}
		if seen != 3 {
			t.Errorf("%d calls", seen)
		}
	})
}
