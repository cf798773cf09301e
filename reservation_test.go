package sluice_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// A reservation waits no longer than its caller permits.
func TestReservationsWaitAsLongAsPermitted(t *testing.T) {
	bubble(t, sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 2}, func(b *bench) {
		const ever = time.Hour
		b.reserves(3, ever, -1)
		b.reserves(2, ever, 0)
		b.reserves(2, 199*time.Millisecond, -1)
		b.reserves(2, 200*time.Millisecond, 200*time.Millisecond)
		b.reserves(1, 0, -1)
		b.reserves(1, -1, -1)
		b.reserves(1, math.MaxInt64, 300*time.Millisecond)
		d := b.allows(1, false)
		if d.RetryAfter != 400*time.Millisecond || d.ResetAfter != 500*time.Millisecond {
			b.Errorf("reservations leave a wait of 400 ms and a reset in 500 ms, got %+v", d)
		}
		pass(500 * time.Millisecond)
		b.allows(2, true)
	})
}

func TestCancelEndsAReservationOnce(t *testing.T) {
	bubble(t, sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 2}, func(b *bench) {
		ctx, ever := b.Context(), time.Hour
		b.reserves(2, ever, 0)
		r := b.reserves(2, ever, 200*time.Millisecond)
		if err := r.Cancel(ctx); err != nil {
			b.Fatal(err)
		}
		if err := r.Cancel(ctx); !errors.Is(err, sluice.ErrEnded) {
			b.Errorf("cancelled twice: %v", err)
		}
		if err := r.Settle(ctx, 1); !errors.Is(err, sluice.ErrEnded) {
			b.Errorf("settled what was cancelled: %v", err)
		}
		r = b.reserves(2, ever, 200*time.Millisecond)
		b.reserves(1, ever, 300*time.Millisecond)
		if err := r.Cancel(ctx); err != nil { // except the unit on which the later one relies
			b.Fatal(err)
		}
		b.reserves(1, ever, 300*time.Millisecond)
		denied := b.reserves(3, ever, -1)
		if err := denied.Cancel(ctx); err != nil {
			b.Errorf("cancelling nothing: %v", err)
		}
		if err := denied.Settle(ctx, 1); err == nil {
			b.Error("settled nothing")
		}
	})
}

// TestCancelTooLate: after the moment of a reservation, Cancel says that it gives nothing back, and the reservation can
// still be settled. A deferred Cancel does no harm after that.
func TestCancelTooLate(t *testing.T) {
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerHour(1000)},
		sluice.FixedWindow{Rate: sluice.PerHour(1000)},
		sluice.SlidingLog{Rate: sluice.PerHour(1000)},
	} {
		bubble(t, a, func(b *bench) {
			ctx := b.Context()
			r := b.reserves(400, -1, 0)
			pass(2 * time.Millisecond)
			for range 2 {
				if err := r.Cancel(ctx); !errors.Is(err, sluice.ErrActed) {
					b.Errorf("%v: a cancellation after the moment: %v, want ErrActed", a, err)
				}
			}
			if d, _ := b.PeekN(ctx, b.key, 0); d.Remaining != 600 {
				b.Errorf("%v: %d are left after it, want 600", a, d.Remaining)
			}
			if err := r.Settle(ctx, 0); err != nil {
				b.Errorf("%v: settled at 0: %v", a, err)
			}
			if d, _ := b.PeekN(ctx, b.key, 0); d.Remaining != 1000 {
				b.Errorf("%v: %d are left after that, want 1000", a, d.Remaining)
			}
			if err := r.Cancel(ctx); !errors.Is(err, sluice.ErrEnded) {
				b.Errorf("%v: canceled when it was settled: %v, want ErrEnded", a, err)
			}
		})
	}
}

func TestSettleCreditsTheDifference(t *testing.T) {
	for _, step := range []struct {
		algorithm sluice.Algorithm
		cost      int64
		actual    int64
		remain    int64
	}{
		{sluice.TokenBucket{Rate: sluice.PerHour(10)}, 5, 2, 8},
		{sluice.TokenBucket{Rate: sluice.PerHour(10)}, 5, 5, 5},
		{sluice.TokenBucket{Rate: sluice.PerHour(10)}, 5, 7, 3},
		{sluice.TokenBucket{Rate: sluice.PerHour(10)}, 5, 12, 0},
		{sluice.TokenBucket{Rate: sluice.PerHour(10)}, 0, 4, 6},
		{sluice.FixedWindow{Rate: sluice.PerHour(10)}, 5, 2, 8},
		{sluice.FixedWindow{Rate: sluice.PerHour(10), Opened: true}, 5, 12, 0},
		{sluice.SlidingWindow{Rate: sluice.PerHour(10)}, 5, 2, 8},
		{sluice.SlidingCounter{Rate: sluice.PerHour(10)}, 5, 7, 3},
		{sluice.SlidingLog{Rate: sluice.PerHour(10)}, 5, 2, 8},
		{sluice.SlidingLog{Rate: sluice.PerHour(10)}, 5, 0, 10},
		{sluice.LeakyBucket{Rate: sluice.PerHour(10), Queue: 9}, 5, 2, 8},
		{sluice.LeakyBucket{Rate: sluice.PerHour(10), Queue: 9}, 5, 7, 3},
	} {
		bubble(t, step.algorithm, func(b *bench) {
			r := b.reserves(step.cost, 10*time.Hour, b.reserveDelay(step.cost))
			if err := r.Settle(b.Context(), -1); err == nil {
				b.Error("settled at less than nothing")
			}
			if err := r.Settle(b.Context(), step.actual); err != nil {
				b.Fatalf("%v: settling failed: %v", step.algorithm, err)
			}
			d, err := b.PeekN(b.Context(), b.key, 0)
			if err != nil || d.Remaining != step.remain {
				b.Errorf("%v: %d settled at %d leaves %d, want %d", step.algorithm, step.cost, step.actual, d.Remaining, step.remain)
			}
		})
	}
}

// TestSettleIntoDebt: nothing passes before a bucket has paid its debt.
func TestSettleIntoDebt(t *testing.T) {
	bubble(t, sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 2, Debt: 5}, func(b *bench) {
		r := b.reserves(1, 0, 0)
		if err := r.Settle(b.Context(), 100); err != nil { // 5 are owed, the rest is forgiven
			b.Fatal(err)
		}
		if d := b.allows(0, false); d.RetryAfter != 500*time.Millisecond {
			b.Errorf("no cost: %+v", d)
		}
		if d := b.allows(1, false); d.RetryAfter != 600*time.Millisecond {
			b.Errorf("one unit: %+v", d)
		}
	})
}
