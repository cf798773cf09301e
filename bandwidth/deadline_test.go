package bandwidth_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
)

// TestContextEndsWaitingCalls ends the context of a call that waits for its turn. The call returns at once. Bytes
// that were to be written are given back to the flow; bytes that were read are returned and stay paid.
func TestContextEndsWaitingCalls(t *testing.T) {
	for name, make := range movers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t)
				l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
				crowd(t, s, l, 500*kB)
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				time.AfterFunc(100*time.Millisecond, cancel)
				n, err := make(ctx, 4*kB, l.Flow(key))()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if d := time.Since(began); d != 100*time.Millisecond {
					t.Errorf("returned after %v", d)
				}
				paid := 0
				if name == "Reader" {
					paid = 4 * kB
				}
				if n != paid {
					t.Errorf("%d bytes moved", n)
				}
				<-time.After(400*time.Millisecond + l.Rate().Period()/1000)
				if got := used(t, s, l, key); got > int64(30*kB-kB+paid) || got < int64(30*kB-kB-4*kB+paid) {
					t.Errorf("%d bytes are missing", got)
				}
			})
		})
	}
}

// crowd lets others wait for so many bytes beyond what the bucket holds.
func crowd(tb testing.TB, s sluice.Store, l *bandwidth.Limiter, n int64) {
	tb.Helper()
	n += l.Limit().Capacity()
	for n > 0 {
		cost := min(n, l.Limit().Capacity())
		n -= cost
		d, err := s.Decide(context.Background(), sluice.Request{Limit: l.Limit(), Key: key, Cost: cost, MaxWait: time.Hour})
		if err != nil || !d.Allowed {
			tb.Fatalf("the crowd cannot wait: %+v, %v", d, err)
		}
	}
}

// TestRefusesToWaitBeyondTheDeadline refuses at once what would wait beyond the deadline of the context.
func TestRefusesToWaitBeyondTheDeadline(t *testing.T) {
	for name, make := range movers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t)
				l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
				crowd(t, s, l, 500*kB)
				ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
				defer cancel()
				began, before := time.Now(), used(t, s, l, key)
				_, err := make(ctx, 4*kB, l.Flow(key))()
				if !errors.Is(err, sluice.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("returned after %v", d)
				}
				if after := used(t, s, l, key); after != before {
					t.Errorf("%d bytes were taken", after-before)
				}
			})
		})
	}
}

// TestDeadlineFar lets a write pass that its deadline has time for.
func TestDeadlineFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flow(t, sluice.PerSecond(1*mB))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := bandwidth.NewWriter(ctx, io.Discard, f).Write(buffer(500 * kB)); n != 500*kB || err != nil {
			t.Errorf("the deadline has time for all bytes, but %d were written: %v", n, err)
		}
		n, err := bandwidth.NewWriter(ctx, io.Discard, f).Write(buffer(1 * mB))
		if !errors.Is(err, context.DeadlineExceeded) || n < 500*kB || n > 530*kB {
			t.Errorf("want a write that ends at its deadline after some 500,000 bytes, got %d, %v", n, err)
		}
	})
}
