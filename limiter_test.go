package sluice_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// bench is a limiter over a store of its own, with helpers for tests. In a synctest bubble its
// clock is the bubble's.
type bench struct {
	*testing.T
	*sluice.Limiter
	key sluice.Key
}

func newBench(t *testing.T, a sluice.Algorithm) *bench {
	t.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := sluice.NewLimit("test", a)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, sluice.NewLimiter(store, limit), sluice.StringKey("key")}
}

// allows checks whether n units pass.
func (b *bench) allows(n int64, want bool) sluice.Decision {
	b.Helper()
	d, err := b.AllowN(b.Context(), b.key, n)
	if err != nil || d.Allowed != want {
		b.Fatalf("%d units: %+v, %v, want allowed %v", n, d, err, want)
	}
	return d
}

// reserves checks the delay of a reservation; a negative delay means a denial.
func (b *bench) reserves(n int64, maxWait, want time.Duration) *sluice.Reservation {
	b.Helper()
	r, err := b.ReserveN(b.Context(), b.key, n, maxWait)
	if err != nil {
		b.Fatal(err)
	}
	if d := r.Decision(); d.Allowed != (want >= 0) || r.OK() != d.Allowed || d.Delay != max(want, 0) {
		b.Fatalf("%d units within %v: %+v, want a delay of %v", n, maxWait, d, want)
	}
	return r
}

// waits checks how long Wait takes and what it returns.
func (b *bench) waits(ctx context.Context, n int64, took time.Duration, want error) {
	b.Helper()
	start := time.Now()
	if err := b.WaitN(ctx, b.key, n); !errors.Is(err, want) {
		b.Fatalf("waiting for %d: %v, want %v", n, err, want)
	}
	if got := time.Since(start); got != took {
		b.Fatalf("waiting for %d took %v, want %v", n, got, took)
	}
}

func (b *bench) remain(want int64) {
	b.Helper()
	d, err := b.PeekN(b.Context(), b.key, 0)
	if err != nil || d.Remaining != want {
		b.Fatalf("%+v, %v, want %d to remain", d, err, want)
	}
}

// bubble runs a test with a clock that moves when all goroutines wait.
func bubble(t *testing.T, a sluice.Algorithm, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newBench(t, a)) })
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

var tenASecond = sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 3}

func TestWaitTakesUnitsWhenTheyAreThere(t *testing.T) {
	bubble(t, tenASecond, func(b *bench) {
		ctx := b.Context()
		done, cancel := context.WithCancel(ctx)
		cancel()
		b.waits(done, 1, 0, context.Canceled)
		b.waits(ctx, 4, 0, sluice.ErrNever)
		b.waits(ctx, 2, 0, nil)
		b.waits(ctx, 3, 200*time.Millisecond, nil)
		b.waits(ctx, 0, 0, nil)
	})
}

func TestWaitGivesBackWhenTheContextEnds(t *testing.T) {
	bubble(t, tenASecond, func(b *bench) {
		b.waits(b.Context(), 2, 0, nil)
		ctx, cancel := context.WithTimeoutCause(b.Context(), time.Hour, nil)
		time.AfterFunc(100*time.Millisecond, cancel)
		b.waits(ctx, 3, 100*time.Millisecond, context.Canceled)
		b.waits(b.Context(), 2, 0, nil)
	})
}

func TestWaitFailsAtOnceWhenTheDeadlineIsTooNear(t *testing.T) {
	for _, step := range []struct {
		name      string
		algorithm sluice.Algorithm
	}{
		{"token bucket", tenASecond},
		{"warm bucket", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 3, WarmUp: time.Second}},
		{"leaky bucket", sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 2}},
		{"long queue", sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 100}},
		{"fixed window", sluice.FixedWindow{Rate: sluice.PerSecond(3), Opened: true}},
		{"sliding window", sluice.SlidingWindow{Rate: sluice.PerSecond(3)}},
		{"sliding counter", sluice.SlidingCounter{Rate: sluice.PerSecond(3)}},
		{"sliding log", sluice.SlidingLog{Rate: sluice.PerSecond(3)}},
	} {
		t.Run(step.name, func(t *testing.T) {
			bubble(t, step.algorithm, func(b *bench) {
				b.waits(b.Context(), 3, b.reserveDelay(3), nil)
				ctx, cancel := context.WithTimeout(b.Context(), 150*time.Millisecond)
				defer cancel()
				b.waits(ctx, 3, 0, sluice.ErrDeadline)
			})
		})
	}
}

// reserveDelay returns how long n units would have to wait now.
func (b *bench) reserveDelay(n int64) time.Duration {
	b.Helper()
	r, err := b.ReserveN(b.Context(), b.key, n, time.Hour)
	if err != nil || !r.OK() {
		b.Fatalf("%d units cannot be reserved: %+v, %v", n, r.Decision(), err)
	}
	if err := r.Cancel(b.Context()); err != nil {
		b.Fatal(err)
	}
	return r.Decision().Delay
}

// TestWaitForAWindow retries when the window has room.
func TestWaitForAWindow(t *testing.T) {
	bubble(t, sluice.FixedWindow{Rate: sluice.PerSecond(2), Opened: true}, func(b *bench) {
		b.waits(b.Context(), 2, 0, nil)
		b.waits(b.Context(), 1, time.Second, nil)
		b.waits(b.Context(), 2, time.Second, nil)
	})
	bubble(t, sluice.SlidingLog{Rate: sluice.PerSecond(9), MinInterval: 300 * time.Millisecond}, func(b *bench) {
		b.waits(b.Context(), 1, 0, nil)
		b.waits(b.Context(), 1, 300*time.Millisecond, nil)
	})
}

// TestWaitForAQueue: a leaky bucket gives a turn in its queue, and a full one gives it once there
// is room.
func TestWaitForAQueue(t *testing.T) {
	bubble(t, sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 1}, func(b *bench) {
		b.waits(b.Context(), 1, 0, nil)
		b.waits(b.Context(), 1, 100*time.Millisecond, nil)
		b.reserves(1, time.Second, 100*time.Millisecond)
		b.waits(b.Context(), 1, 200*time.Millisecond, nil)
		// The queue is full for 100 ms; a turn in it lasts another 100 ms.
		b.reserves(1, time.Second, 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(b.Context(), 199*time.Millisecond)
		defer cancel()
		b.waits(ctx, 1, 0, sluice.ErrDeadline)
		ctx, cancel = context.WithTimeout(b.Context(), 200*time.Millisecond)
		defer cancel()
		b.waits(ctx, 1, 200*time.Millisecond, nil)
	})
}

func TestWaitersActInOrder(t *testing.T) {
	bubble(t, sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 1}, func(b *bench) {
		b.allows(1, true)
		var order []int
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 5 {
			wg.Go(func() {
				if err := b.Wait(b.Context(), b.key); err != nil {
					b.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, n := range order {
			if i != n {
				b.Errorf("they acted in the order %v", order)
			}
		}
	})
}

func TestPeekWritesNothing(t *testing.T) {
	bubble(t, tenASecond, func(b *bench) {
		for range 10 {
			if d, err := b.PeekN(b.Context(), b.key, 3); err != nil || !d.Allowed {
				b.Fatalf("a peek at 3 units, which are there: %+v, %v", d, err)
			}
		}
		b.remain(3)
		if d, err := b.PeekN(b.Context(), b.key, 4); err != nil || d.Allowed || d.Reason != sluice.ReasonNever {
			b.Errorf("a peek at 4 of 3 units should never be allowed: %+v, %v", d, err)
		}
	})
}

// After a reset, a key has all units again.
func TestResetGivesAllUnitsBack(t *testing.T) {
	bubble(t, tenASecond, func(b *bench) {
		b.allows(3, true)
		b.allows(1, false)
		if err := b.Reset(b.Context(), b.key); err != nil {
			b.Fatal(err)
		}
		b.allows(3, true)
	})
}

// New numbers apply at once, and used units stay used. Another name is an error.
func TestSetLimitKeepsUsedUnits(t *testing.T) {
	bubble(t, sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 10}, func(b *bench) {
		b.allows(8, true)
		if err := b.SetLimit(sluice.MustLimit("test", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 20})); err != nil {
			b.Fatal(err)
		}
		b.remain(12) // eight of twenty are used
		b.allows(12, true)
		if d := b.allows(1, false); d.RetryAfter != time.Second || d.Limit != 20 {
			b.Errorf("want a wait of 1 s by the new limit of 20, got %+v", d)
		}
		err := b.SetLimit(sluice.MustLimit("other", tenASecond))
		var bad *sluice.LimitError
		if !errors.As(err, &bad) || bad.Field != "Name" || b.Limit().Name() != "test" {
			b.Errorf("a limit of another name: %v", err)
		}
	})
}

func TestErrorsOfRequests(t *testing.T) {
	bubble(t, tenASecond, func(b *bench) {
		var bad *sluice.RequestError
		if _, err := b.AllowN(b.Context(), b.key, -1); !errors.As(err, &bad) {
			b.Errorf("a negative cost: %v", err)
		}
		if _, err := b.ReserveN(b.Context(), b.key, -1, 0); !errors.As(err, &bad) {
			b.Errorf("a negative reservation: %v", err)
		}
		if err := b.WaitN(b.Context(), b.key, -1); !errors.As(err, &bad) {
			b.Errorf("a negative wait: %v", err)
		}
		if _, err := b.Acquire(b.Context(), b.key); !errors.Is(err, sluice.ErrUnsupported) {
			b.Errorf("a lease of a bucket: %v", err)
		}
		b.remain(3)
	})
}

// flaky is a store that fails to end reservations and leases.
type flaky struct {
	sluice.Store
	err error
}

func (f *flaky) Cancel(context.Context, sluice.Charge) error                 { return f.err }
func (f *flaky) Settle(context.Context, sluice.Charge, int64) error          { return f.err }
func (f *flaky) Release(context.Context, sluice.Charge, time.Duration) error { return f.err }

// TestEndsThatFail: an end that changed nothing can be retried. The end of a reservation with an
// unknown outcome cannot. The release of a lease can: a lease ends once.
func TestEndsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		down := errors.New("down")
		f := &flaky{store, down}
		ctx := t.Context()
		buckets := sluice.NewLimiter(f, sluice.MustLimit("buckets", tenASecond))
		leases := sluice.NewLimiter(f, sluice.MustLimit("leases", sluice.Concurrency{Max: 9}))
		reserve := func() *sluice.Reservation {
			r, err := buckets.Reserve(ctx, sluice.Key{}, 0)
			if err != nil || !r.OK() {
				t.Fatal(r, err)
			}
			return r
		}
		cancelled, settled := reserve(), reserve()
		lease, err := leases.Acquire(ctx, sluice.Key{})
		if err != nil {
			t.Fatal(err)
		}
		for name, end := range map[string]func() error{
			"cancel":  func() error { return cancelled.Cancel(ctx) },
			"settle":  func() error { return settled.Settle(ctx, 0) },
			"release": func() error { return lease.Release(ctx) },
		} {
			f.err = down
			if err := end(); !errors.Is(err, down) {
				t.Errorf("%s: the error is %v, want the error of the store", name, err)
			}
			f.err = sluice.ErrUnknownOutcome
			if err := end(); !errors.Is(err, sluice.ErrUnknownOutcome) {
				t.Errorf("%s again: %v", name, err)
			}
			want := sluice.ErrEnded
			if name == "release" {
				want = sluice.ErrUnknownOutcome
			}
			if err := end(); !errors.Is(err, want) {
				t.Errorf("%s after that: %v", name, err)
			}
		}
	})
}

// TestLimiterDebits: a debit takes what is not there, and the limit refuses until the rate has paid it.
func TestLimiterDebits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5})
		d, err := b.Debit(t.Context(), b.key, 3)
		if err != nil || !d.Allowed || d.Remaining != 2 {
			t.Errorf("three of five: %+v, %v", d, err)
		}
		d, err = b.Debit(t.Context(), b.key, 4)
		if err != nil || d.Allowed || d.Remaining != 0 {
			t.Errorf("four, and two are left: %+v, %v", d, err)
		}
		b.allows(0, false) // two are owed
		<-time.After(2 * time.Second)
		b.allows(0, true)
		b.allows(1, false)
		<-time.After(time.Second)
		b.allows(1, true)
	})
	for _, a := range []sluice.Algorithm{sluice.LeakyBucket{Rate: sluice.PerSecond(1)}, sluice.Concurrency{Max: 1}} {
		b := newBench(t, a)
		if _, err := b.Debit(t.Context(), b.key, 1); !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("%v: %v, want ErrUnsupported", a, err)
		}
	}
}
