package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// The breaker opens with the tenth failure in a row, and the store has peace then.
func TestOpensOnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		h.fake.set(broken)
		for i := range 100 {
			if d := h.take(other, 1); !d.Allowed || !d.Degraded {
				t.Fatalf("call %d: %+v", i, d)
			}
			if want := i >= 9; (h.State() == guard.StateOpen) != want {
				t.Fatalf("after call %d: %v", i, h.State())
			}
		}
		if n := h.fake.calls.Load(); n != 10 {
			t.Errorf("%d calls of the store, want 10", n)
		}
		if st := h.Stats(); st.Refused != 90 || st.Failed != 10 || st.Opened != 1 || st.Local != 100 || !errors.Is(st.Last, errBroken) {
			t.Errorf("want 10 failures, one opening and 90 refused calls, got %+v", st)
		}
	})
}

// Under load, the guard stops calling a store that hangs, or is slow, within 100 ms.
func TestOpensOnSilence(t *testing.T) {
	release := func(t *testing.T) fault {
		t.Helper()
		c := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(c) })
		return hung(c)
	}
	for name, with := range map[string]func(t *testing.T) fault{
		"hung":    release,
		"heedful": func(*testing.T) fault { return heedful },
		"slow":    func(*testing.T) fault { return slow(60 * time.Millisecond) },
		"slower":  func(*testing.T) fault { return slow(35 * time.Millisecond) }, // than Slow, and within the deadline
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{Slow: 30 * time.Millisecond})
				var wg sync.WaitGroup
				var worst atomic.Int64
				load := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); pass(500 * time.Microsecond) {
						wg.Go(func() {
							began := time.Now()
							h.take(other, 1)
							worst.Store(max(worst.Load(), int64(time.Since(began))))
						})
					}
				}
				load(100 * time.Millisecond)
				if h.State() != guard.StateClosed || h.Stats().Failed > 0 {
					t.Fatalf("with a store that works: %+v", h.Stats())
				}
				h.fake.set(with(t))
				began := time.Now()
				load(100 * time.Millisecond)
				st := h.Stats()
				if opened := st.Since.Sub(began); st.State != guard.StateOpen || opened > 100*time.Millisecond {
					t.Errorf("after %v: %+v", opened, st)
				}
				wg.Wait()
				if w := time.Duration(worst.Load()); w > 50*time.Millisecond {
					t.Errorf("an answer took %v", w)
				}
				pass(2 * time.Second) // all that was left behind returns
				if st := h.Stats(); st.InFlight != 0 {
					t.Errorf("calls are still in flight after all returned: %+v", st)
				}
			})
		})
	}
}

// A store that fails half of the time is failing, one that fails now and then is not.
func TestOpensOnRatio(t *testing.T) {
	for _, c := range []struct {
		of   int64
		open bool
	}{{2, true}, {3, false}, {50, false}} {
		t.Run(fmt.Sprintf("one in %d", c.of), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{})
				h.fake.set(func(context.Context) error {
					if h.fake.calls.Load()%c.of == 0 {
						return errBroken
					}
					return nil
				})
				for range 2000 {
					h.take(other, 1)
					pass(time.Millisecond)
				}
				if open := h.Stats().Opened > 0; open != c.open {
					t.Errorf("the breaker should open: %v, got %+v", c.open, h.Stats())
				}
			})
		})
	}
}

// Failures in a row count, however long ago the first was, unless one call succeeds.
func TestFailuresInARowCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Failures: 3})
		h.fake.set(broken)
		h.take(other, 1)
		h.take(other, 1)
		h.fake.set(nil)
		h.take(other, 1)
		h.fake.set(broken)
		pass(2 * time.Second)
		for i, want := range []guard.State{guard.StateClosed, guard.StateClosed, guard.StateOpen} {
			h.take(other, 1)
			pass(2 * time.Second)
			if h.State() != want {
				t.Fatalf("after failure %d: %v", i+1, h.State())
			}
		}
	})
}

// Recovery is seen within a second of the fault's end, whenever that is, and the
// probes in between are few.
func TestRecoveryIsSeenWithinASecond(t *testing.T) {
	for _, with := range []struct {
		name  string
		fault fault
	}{{"broken", broken}, {"silent", heedful}, {"slow", slow(70 * time.Millisecond)}} {
		t.Run(with.name, func(t *testing.T) {
			for outage := 500 * time.Millisecond; outage < time.Second; outage += 97 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					h := build(t, guard.Options{})
					var wg sync.WaitGroup
					load := func(d time.Duration) {
						for end := time.Now().Add(d); time.Now().Before(end); pass(2 * time.Millisecond) {
							wg.Go(func() { h.take(other, 1) })
						}
					}
					h.fake.set(with.fault)
					load(100 * time.Millisecond)
					before := h.fake.calls.Load()
					load(outage)
					if probes := h.fake.calls.Load() - before; probes > 5 {
						t.Errorf("%d probes in %v", probes, outage)
					}
					h.fake.set(nil)
					mended := time.Now()
					load(time.Second)
					st := h.Stats()
					if st.State != guard.StateClosed || st.Since.Sub(mended) > time.Second {
						t.Errorf("closed %v after the fault: %+v", st.Since.Sub(mended), st)
					}
					if d := h.take(other, 1); d.Degraded {
						t.Errorf("the fallback decided after the recovery: %+v", d)
					}
					wg.Wait()
				})
			}
		})
	}
}

// While one call probes, the others have their answer at once; if the probe fails,
// the next comes after a random time.
func TestOthersDoNotWaitForAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		h.outage()
		h.fake.set(heedful)
		pauses := map[time.Duration]bool{}
		var callers sync.WaitGroup
		defer callers.Wait() // before the store is closed
		for range 20 {
			failed := time.Now()
			n := h.fake.calls.Load()
			for h.fake.calls.Load() == n {
				callers.Go(func() { h.take(other, 1) })
				pass(time.Millisecond)
			}
			pause := time.Since(failed)
			if pause < 250*time.Millisecond || pause > 502*time.Millisecond {
				t.Errorf("the probe came after %v", pause)
			}
			pauses[pause] = true
			if h.State() != guard.StateHalfOpen {
				t.Errorf("while it probes: %v", h.State())
			}
			began := time.Now()
			for range 100 {
				h.take(other, 1)
			}
			if time.Since(began) > 0 || h.fake.calls.Load() != n+1 {
				t.Errorf("while it probes: %d more calls in %v", h.fake.calls.Load()-n-1, time.Since(began))
			}
			for h.State() == guard.StateHalfOpen {
				pass(time.Millisecond)
			}
		}
		if len(pauses) < 5 {
			t.Errorf("the pauses are %v", pauses)
		}
	})
}

// A probe whose caller leaves says nothing: the next call is one.
func TestProbeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		h.outage()
		h.fake.set(heedful)
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := h.Decide(ctx, sluice.Request{Limit: other, Cost: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller of the probe: %v", err)
		}
		if h.State() != guard.StateOpen {
			t.Errorf("then: %v", h.State())
		}
		h.fake.set(nil)
		if d := h.take(other, 1); d.Degraded || h.State() != guard.StateClosed {
			t.Errorf("the next call: %+v, %v", d, h.State())
		}
	})
}

// An answer that is late counts against what the breaker is now no more.
func TestLateAnswersDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Deadline: 5 * time.Second, Slow: time.Second})
		h.fake.set(heedful)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { h.take(other, 1) })
		}
		synctest.Wait()
		h.outage()
		h.recovery()
		pass(4 * time.Second)
		wg.Wait()
		if st := h.Stats(); st.State != guard.StateClosed || st.Failed < 50 || st.Opened != 1 {
			t.Errorf("late failures changed the closed breaker: %+v", st)
		}
	})
}

// A store that panics has failed, and takes nobody with it.
func TestAPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inline := range []bool{false, true} {
			h := build(t, guard.Options{Inline: inline})
			h.fake.set(func(context.Context) error { panic("no such slot") })
			if d := h.take(other, 1); !d.Degraded {
				t.Errorf("the store panicked, but the answer is its own: %+v", d)
			}
			var p *guard.PanicError
			if st := h.Stats(); !errors.As(st.Last, &p) || p.Value != "no such slot" || len(p.Stack) == 0 || st.InFlight != 0 {
				t.Errorf("want the panic as the last failure, got %+v", st)
			}
			if err := h.Reset(t.Context(), other, key); !errors.Is(err, sluice.ErrUnknownOutcome) {
				t.Errorf("a reset: %v", err)
			}
		}
	})
}

// A store that ends the goroutine of a call, as t.FailNow does in one that a test has made
// up, is taken for a failure: no call stays in flight, and no probe.
func TestAnEndedGoroutineIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inline := range []bool{false, true} {
			h := build(t, guard.Options{Inline: inline, Failures: 2})
			h.fake.set(func(context.Context) error {
				runtime.Goexit()
				return nil
			})
			decide := func() {
				done := make(chan struct{})
				go func() { // ends with the store's, if that is inline
					defer close(done)
					h.take(other, 1)
				}()
				<-done
			}
			for range 3 {
				decide()
				pass(time.Second) // the last one is a probe
			}
			if st := h.Stats(); st.State != guard.StateOpen || st.InFlight != 0 || st.Failed != 3 {
				t.Errorf("inline %t: %+v", inline, st)
			}
			h.fake.set(nil)
			if d := h.take(other, 1); d.Degraded {
				t.Errorf("inline %t: %+v", inline, d)
			}
		}
	})
}

// An error about the request itself is an answer, and not a failure.
func TestAnswersPass(t *testing.T) {
	for _, want := range []error{
		&sluice.RequestError{Limit: "x", Problem: "is odd"}, sluice.ErrUnsupported, sluice.ErrEnded, sluice.ErrLeaseLost, sluice.ErrClosed,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := build(t, guard.Options{})
			h.fake.set(func(context.Context) error { return fmt.Errorf("store: %w", want) })
			for range 30 {
				_, err := h.Decide(t.Context(), sluice.Request{Limit: other, Cost: 1})
				if !errors.Is(err, want) {
					t.Fatalf("got %v, want %v", err, want)
				}
				if err := h.DecideAll(t.Context(), make([]sluice.Request, 2), make([]sluice.Decision, 2)); !errors.Is(err, want) {
					t.Fatalf("a batch: got %v, want %v", err, want)
				}
				if err := h.Cancel(t.Context(), sluice.Charge{Limit: other}); !errors.Is(err, want) {
					t.Fatalf("an end: got %v, want %v", err, want)
				}
			}
			if st := h.Stats(); st.State != guard.StateClosed || st.Failed > 0 || st.Answered != 90 || h.fake.calls.Load() != 90 {
				t.Errorf("error %v should count as an answer, got %+v", want, st)
			}
		})
	}
}

// A call whose reply is lost is never made again.
func TestNoReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Failures: 1000})
		lost := fmt.Errorf("%w: the reply was cut", sluice.ErrUnknownOutcome)
		h.fake.set(func(context.Context) error { return lost })
		leases := limit("leases", sluice.Concurrency{Max: 4})
		for i, call := range []func() error{
			func() error { h.take(other, 1); return nil },
			func() error { h.decide(sluice.Request{Limit: leases, Key: key, Cost: 1, Member: 7}); return nil },
			func() error {
				return h.DecideAll(t.Context(), []sluice.Request{{Limit: other, Cost: 1}, {Limit: other, Cost: 1}}, make([]sluice.Decision, 2))
			},
			func() error { return want(h.Cancel(t.Context(), sluice.Charge{Limit: other}), lost) },
			func() error { return want(h.Settle(t.Context(), sluice.Charge{Limit: other}, 1), lost) },
			func() error { return want(h.Release(t.Context(), sluice.Charge{Limit: leases}, 0), lost) },
			func() error { return want(h.Reset(t.Context(), other, key), lost) },
		} {
			if err := call(); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if n := h.fake.calls.Load(); n != int64(i+1) {
				t.Fatalf("call %d: the store was called %d times, want once", i, n-int64(i))
			}
		}
	})
}

func want(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("got %w, want %w", err, want)
}

// The hook is called for each transition, in order, and may call the guard.
func TestHookGetsEachTransitionInOrder(t *testing.T) {
	type change struct {
		from, to guard.State
		why      error
	}
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var changes []change
		var inside atomic.Bool
		h = build(t, guard.Options{Retry: time.Millisecond, OnTransition: func(from, to guard.State, why error) {
			if inside.Swap(true) {
				t.Error("two hooks at once")
			}
			h.State()
			h.Stats()
			h.take(other, 1)
			pass(3 * time.Millisecond) // while the others go on
			changes = append(changes, change{from, to, why})
			inside.Store(false)
		}})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := range 400 {
					switch i % 100 {
					case 0:
						h.fake.set(broken)
					case 50:
						h.fake.set(nil)
					}
					h.take(other, 1)
					pass(100 * time.Microsecond)
				}
			})
		}
		wg.Wait()
		state := guard.StateClosed
		for i, c := range changes {
			if c.from != state {
				t.Fatalf("change %d is from %v, want %v: %v", i, c.from, state, changes)
			}
			if isFailure := errors.Is(c.why, errBroken); isFailure != (c.to == guard.StateOpen) {
				t.Errorf("change %d, to %v: %v", i, c.to, c.why)
			}
			state = c.to
		}
		if len(changes) < 6 || state != h.State() {
			t.Errorf("%d changes, to %v, and the state is %v", len(changes), state, h.State())
		}
	})
}

// A hook panics in its caller, and the next transition is delivered.
func TestHookPanics(t *testing.T) {
	for _, at := range []guard.State{guard.StateOpen, guard.StateHalfOpen, guard.StateClosed} {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []guard.State
				panics := true
				h := build(t, guard.Options{Failures: 1, OnTransition: func(_, to guard.State, _ error) {
					seen = append(seen, to)
					if to == at && panics {
						panics = false
						panic("hook")
					}
				}})
				recovered := 0
				take := func() {
					defer func() {
						if v := recover(); v == "hook" {
							recovered++
						}
					}()
					h.take(other, 1)
				}
				h.fake.set(broken)
				take()
				h.fake.set(nil)
				pass(time.Second)
				take()
				h.recovery()
				want := []guard.State{guard.StateOpen, guard.StateHalfOpen, guard.StateClosed}
				if at == guard.StateHalfOpen { // the probe was not made
					want = []guard.State{guard.StateOpen, guard.StateHalfOpen, guard.StateOpen, guard.StateHalfOpen, guard.StateClosed}
				}
				if !slices.Equal(seen, want) || recovered != 1 || h.Stats().InFlight != 0 {
					t.Errorf("the hook saw %v, %d panics: %+v", seen, recovered, h.Stats())
				}
			})
		})
	}
}

// A key that holds no state gets the fallback. The store works for all other keys, so the breaker stays closed.
func TestForeignStateOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		h.fake.set(func(context.Context) error { return fmt.Errorf("a reply: %w", sluice.ErrForeignState) })
		for i := range 100 {
			if d := h.take(other, 1); !d.Degraded {
				t.Fatalf("call %d: %+v", i, d)
			}
		}
		if st := h.Stats(); st.State != guard.StateClosed || st.Failed != 0 || h.fake.calls.Load() != 100 {
			t.Errorf("%+v after %d calls", st, h.fake.calls.Load())
		}
	})
}
