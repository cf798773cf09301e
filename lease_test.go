package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// Leases are taken, queued, released and lost by the numbers of their limit.
func TestLeasesFollowTheirLimit(t *testing.T) {
	bubble(t, sluice.Concurrency{Max: 2, Queue: 1, TTL: time.Minute, Latency: time.Second}, func(b *bench) {
		ctx := b.Context()
		acquire := func(n int64, delay time.Duration) *sluice.Lease {
			b.Helper()
			l, err := b.AcquireN(ctx, b.key, n)
			if err != nil {
				b.Fatal(err)
			}
			if d := l.Decision(); l.OK() != d.Allowed || d.Allowed != (delay >= 0) || d.Delay != max(delay, 0) {
				b.Fatalf("%d units: %+v, want a delay of %v", n, d, delay)
			}
			return l
		}
		release := func(l *sluice.Lease, want error) {
			b.Helper()
			if err := l.Release(ctx); !errors.Is(err, want) {
				b.Fatalf("released with %v, want %v", err, want)
			}
		}
		acquire(4, -1)
		first, queued := acquire(2, 0), acquire(1, time.Second)
		denied := acquire(1, -1)
		release(denied, nil)
		release(denied, nil)
		var bad *sluice.RequestError
		if _, err := denied.Renew(ctx); !errors.As(err, &bad) {
			b.Errorf("renewed a denied lease: %v", err)
		}
		if d, err := queued.Renew(ctx); err != nil || d.Delay != time.Second {
			b.Fatalf("the second lease should be queued for a second: %+v, %v", d, err)
		}
		release(first, nil)
		release(first, sluice.ErrEnded)
		if _, err := first.Renew(ctx); !errors.Is(err, sluice.ErrEnded) {
			b.Errorf("renewed what was released: %v", err)
		}
		if d, err := queued.Renew(ctx); err != nil || d.Delay != 0 {
			b.Errorf("%+v, %v: nobody is ahead any more", d, err)
		}
		other := acquire(2, 0+time.Second/2) // the first one was held for no time
		pass(time.Minute)
		release(queued, sluice.ErrLeaseLost)
		release(queued, sluice.ErrEnded)
		if d, err := other.Renew(ctx); err != nil || !d.Allowed { // lost, and taken again
			b.Errorf("a lost lease should be taken again: %+v, %v", d, err)
		}
		acquire(1, time.Second)
		pass(time.Minute)
		acquire(3, time.Second)
		if _, err := other.Renew(ctx); !errors.Is(err, sluice.ErrLeaseLost) {
			b.Errorf("renewed a lease that was lost to others: %v", err)
		}
		if _, err := b.AllowN(ctx, b.key, 1); err == nil {
			b.Error("took units of leases without one")
		}
	})
}

// forgetful is a store that loses the replies to releases.
type forgetful struct {
	sluice.Store
	loses bool
}

func (f *forgetful) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	err := f.Store.Release(ctx, c, latency)
	if f.loses {
		return sluice.ErrUnknownOutcome
	}
	return err
}

// A release whose outcome is unknown is repeated until it is known. It ends its own lease only.
func TestReleaseUntilTheOutcomeIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := &forgetful{store, true}
		limiter := sluice.NewLimiter(f, sluice.MustLimit("leases", sluice.Concurrency{Max: 2, TTL: time.Minute}))
		acquire := func() *sluice.Lease {
			l, err := limiter.Acquire(t.Context(), sluice.Key{})
			if err != nil || !l.OK() {
				t.Fatal(l, err)
			}
			return l
		}
		lease, other := acquire(), acquire()
		for range 2 {
			if err := lease.Release(t.Context()); !errors.Is(err, sluice.ErrUnknownOutcome) {
				t.Errorf("without a reply: %v", err)
			}
		}
		if _, err := lease.Renew(t.Context()); !errors.Is(err, sluice.ErrEnded) {
			t.Errorf("renewed a lease that may have ended: %v", err)
		}
		third := acquire() // in the room of the released lease
		f.loses = false
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("repeated, with a reply: %v", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, sluice.ErrEnded) {
			t.Errorf("after that: %v", err)
		}
		for _, l := range []*sluice.Lease{other, third} {
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("another lease was lost: %v", err)
			}
		}
	})
}
