package sluice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/algo"
)

// Limiter is a store and one limit: what most programs hold. Most callers want
// Allow; those that can wait, Wait; those that plan ahead, Reserve. For a
// concurrency limit it is Acquire.
//
// A Limiter is safe for concurrent use, for any number of keys.
type Limiter struct {
	store Store
	taker Taker
	limit atomic.Pointer[Limit]
}

// NewLimiter returns a limiter that keeps the state of limit in store.
func NewLimiter(store Store, limit *Limit) *Limiter {
	l := &Limiter{store: store}
	if t, ok := store.(Taker); ok {
		l.taker = t
	} else {
		l.taker = taker{store}
	}
	l.limit.Store(limit)
	return l
}

// Limit returns the limit in force.
func (l *Limiter) Limit() *Limit { return l.limit.Load() }

// SetLimit changes the numbers of the limit while it is used. What keys have
// used stays used: their states are settled under the old numbers and clamped to the new
// ones, each with its next request. The new limit must have the name of the old one. Under
// another algorithm keys begin anew, and their bans hold.
func (l *Limiter) SetLimit(limit *Limit) error {
	if old := l.Limit(); limit.Name() != old.Name() {
		return &LimitError{
			Limit: limit.Name(), Field: "Name",
			Problem: fmt.Sprintf("is not the name of the limit in force, %q", old.Name()),
			Remedy:  "make a limiter of its own for a limit of another name",
		}
	}
	l.limit.Store(limit)
	return nil
}

// Allow asks for one unit; it is shorthand for AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key Key) (d Decision, err error) {
	// In these words it is cheap enough to be inlined, which saves a copy of d.
	d, err = l.taker.Take(ctx, l.limit.Load(), key, 1)
	return
}

// AllowN takes n units or nothing. A decision that is allowed with a Delay, by a
// leaky bucket, has taken its turn: the caller waits for as long before it acts.
func (l *Limiter) AllowN(ctx context.Context, key Key, n int64) (d Decision, err error) {
	d, err = l.taker.Take(ctx, l.limit.Load(), key, n)
	return
}

// Peek answers as AllowN would, and takes nothing. Remaining is what could be
// taken now.
func (l *Limiter) Peek(ctx context.Context, key Key, n int64) (Decision, error) {
	return l.store.Decide(ctx, Request{Limit: l.limit.Load(), Key: key, Cost: n, Peek: true})
}

// Reset forgets what key has used.
func (l *Limiter) Reset(ctx context.Context, key Key) error {
	return l.store.Reset(ctx, l.limit.Load(), key)
}

// Reserve takes n units ahead of time, if they can be had within maxWait: the
// caller acts after the reservation's Delay. A token bucket goes into debt for it;
// a leaky bucket gives a place in its queue; windows and logs reserve only what is there now.
//
// If the decision is a denial, the reservation has taken nothing and need not be ended.
func (l *Limiter) Reserve(ctx context.Context, key Key, n int64, maxWait time.Duration) (*Reservation, error) {
	r := Request{Limit: l.limit.Load(), Key: key, Cost: n, MaxWait: maxWait}
	if maxWait <= 0 {
		r.MaxWait = NoWait
	}
	d, err := l.store.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	return newReservation(l.store, &r, d), nil
}

// forever is the longest wait: one that no deadline bounds.
const forever = time.Duration(math.MaxInt64)

// Wait takes n units as soon as they can be had and returns when the caller may
// act. It fails at once, and takes nothing, with ErrNever if the cost can never fit and
// with ErrDeadline if the wait would last beyond the context's deadline. If the
// context ends while it waits, it gives back what it took and returns the context's error.
//
// Those who wait for a bucket act in the order in which they asked. Windows and
// logs make no reservations: who waits for one asks again when its time has come.
func (l *Limiter) Wait(ctx context.Context, key Key, n int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := forever
		if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
		r, err := l.Reserve(ctx, key, n, left)
		if err != nil {
			return err
		}
		d := r.Decision()
		if d.Allowed {
			if err := sleep(ctx, d.Delay); err != nil {
				// The units go back, also when the context has ended.
				return errors.Join(err, r.Cancel(context.WithoutCancel(ctx)))
			}
			return nil
		}
		switch {
		case d.Reason == ReasonNever && n > r.charge.Limit.Capacity():
			return ErrNever
		case d.Reason == ReasonNever || d.RetryAfter >= left:
			return ErrDeadline
		}
		if left < forever {
			if err := l.worth(ctx, r, left-d.RetryAfter); err != nil {
				return err
			}
		}
		if err := sleep(ctx, max(d.RetryAfter, time.Microsecond)); err != nil {
			return err
		}
	}
}

// worth reports with ErrDeadline that who was denied a place in a queue, and comes
// back when told, would not get one that is early enough in what is left then.
func (l *Limiter) worth(ctx context.Context, r *Reservation, left time.Duration) error {
	c := &r.charge
	switch c.Limit.params.Kind {
	case algo.KindBucket, algo.KindWarmBucket, algo.KindLeaky:
	default:
		return nil // those who wait for others have no place in a queue
	}
	d, err := l.store.Decide(ctx, Request{
		Limit: c.Limit, Key: c.Key, Cost: c.Cost, MaxWait: max(left, time.Microsecond), Peek: true,
	})
	if err == nil && !d.Allowed && (d.Reason == ReasonNever || d.RetryAfter > r.decision.RetryAfter) {
		return ErrDeadline
	}
	return err
}

// sleep waits for d or the end of the context.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Acquire takes n units of a concurrency limit until the lease is released. If
// the decision is a denial, there is no lease and nothing to release; a Delay is the
// estimated wait of a request that is queued, see Lease.Renew.
func (l *Limiter) Acquire(ctx context.Context, key Key, n int64) (*Lease, Decision, error) {
	limit := l.limit.Load()
	if limit.params.Kind != algo.KindConcurrency {
		return nil, Decision{}, fmt.Errorf("%w: limit %q has no leases", ErrUnsupported, limit.Name())
	}
	r := Request{Limit: limit, Key: key, Cost: n, Member: rand.Uint64()}
	d, err := l.store.Decide(ctx, r)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	lease := newLease(l.store, r, &d)
	return lease, d, nil
}
