package sluice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/algo"
)

// Limiter is a store and one limit: what most programs hold. Most callers want
// [Limiter.Allow]. Callers that can wait want [Limiter.Wait]; callers that plan ahead want
// [Limiter.Reserve]. A concurrency limit needs [Limiter.Acquire], and work that is done already [Limiter.Debit].
//
// The first four take one unit. A variant with the suffix N takes n units or none.
//
// A Limiter is safe for concurrent use, for any number of keys.
type Limiter struct {
	store Store
	taker taker
	limit atomic.Pointer[Limit]             // nil if find returns the limits
	find  func(context.Context, Key) *Limit // nil for one limit
}

// NewLimiter returns a limiter that keeps the state of limit in store. Without a store or a limit, it panics: these are
// mistakes in the program.
func NewLimiter(store Store, limit *Limit) *Limiter {
	if limit == nil || limit.algorithm == nil {
		panic("sluice: NewLimiter has no limit; make one with NewLimit")
	}
	l := newLimiter(store)
	l.limit.Store(limit)
	return l
}

// NewLimiterFunc returns a limiter whose keys have different limits, such as the plans of customers. Each request calls
// find for the limit of its key. It must return a limit that it keeps, not a new one for each request: see [Limit].
// Without a limit (nil), the request fails with a *RequestError. Find may block until the end of ctx, and is called
// concurrently. NewLimiterFunc panics without a store or a function.
//
// If a key changes from one limit to another one with the same name, its used units stay used.
func NewLimiterFunc(store Store, find func(ctx context.Context, key Key) *Limit) *Limiter {
	if find == nil {
		panic("sluice: NewLimiterFunc has no function; give one that returns the limit of a key")
	}
	l := newLimiter(store)
	l.taker, l.find = finder{l.taker, find}, find
	return l
}

func newLimiter(store Store) *Limiter {
	if store == nil {
		panic("sluice: a limiter has no store; give one such as memory.New makes")
	}
	l := &Limiter{store: store}
	if t, ok := store.(taker); ok {
		l.taker = t
	} else {
		l.taker = plain{store}
	}
	return l
}

// finder finds the limit of each key.
type finder struct {
	taker
	find func(context.Context, Key) *Limit
}

func (f finder) Take(ctx context.Context, _ *Limit, k Key, cost int64) (Decision, error) {
	l := f.find(ctx, k)
	if l == nil {
		return Decision{}, (&Request{}).problem()
	}
	return f.taker.Take(ctx, l, k, cost)
}

// Store returns the store, such as to close it, or to save its states.
func (l *Limiter) Store() Store { return l.store }

// Limit returns the limit in force. It is nil for a limiter of NewLimiterFunc.
func (l *Limiter) Limit() *Limit { return l.limit.Load() }

// Request returns the request for one unit of a key. It is shorthand for RequestN(key, 1).
func (l *Limiter) Request(key Key) Request { return l.RequestN(key, 1) }

// RequestN returns the request for n units of a key, for [AllowAll], [ReserveAll] and the methods of a store. It calls the
// function of NewLimiterFunc with context.Background().
func (l *Limiter) RequestN(key Key, n int64) Request {
	return l.request(context.Background(), key, n)
}

func (l *Limiter) request(ctx context.Context, key Key, n int64) Request {
	r := Request{Limit: l.limit.Load(), Key: key, Cost: n}
	if l.find != nil {
		r.Limit = l.find(ctx, key)
	}
	return r
}

// SetLimit changes the numbers of the limit while it is in use. The new limit must have the
// name of the old one: otherwise, and for a limiter of NewLimiterFunc, SetLimit changes nothing and returns a
// *LimitError.
//
// What keys have used stays used: of a bucket of 20 tokens, 12 are left to a key that has taken
// eight under other numbers. A higher rate counts at once. Under another algorithm keys start
// fresh, and their bans hold.
func (l *Limiter) SetLimit(limit *Limit) error {
	old := l.Limit()
	if limit == nil || limit.algorithm == nil {
		return &LimitError{Field: "limit", Problem: "is missing", Remedy: "make one with NewLimit"}
	}
	if old == nil {
		return &LimitError{Limit: limit.Name(), Field: "limit", Problem: "is for a limiter whose function finds the limits", Remedy: "let the function return it"}
	}
	if limit.Name() != old.Name() {
		return &LimitError{
			Limit: limit.Name(), Field: "Name",
			Problem: fmt.Sprintf("is not the name of the limit in force, %q", old.Name()),
			Remedy:  "make another limiter for a limit of another name",
		}
	}
	l.limit.Store(limit)
	return nil
}

// Allow takes one unit, if the limit allows it now. It is shorthand for AllowN(ctx, key, 1): under a leaky bucket with a
// queue, the caller waits for the decision's Delay before it acts.
func (l *Limiter) Allow(ctx context.Context, key Key) (d Decision, err error) {
	// Written like this, Allow is cheap enough to be inlined, which saves a copy of d.
	d, err = l.taker.Take(ctx, l.limit.Load(), key, 1)
	return
}

// AllowN takes n units, or none. A leaky bucket may allow the request with a Delay: the request
// then has a turn in the queue. The caller waits for the Delay before it acts.
//
// An error means that nothing was decided, unless it wraps ErrUnknownOutcome.
func (l *Limiter) AllowN(ctx context.Context, key Key, n int64) (d Decision, err error) {
	d, err = l.taker.Take(ctx, l.limit.Load(), key, n)
	return
}

// Peek returns what Allow would decide, and takes nothing. It is shorthand for
// PeekN(ctx, key, 1).
func (l *Limiter) Peek(ctx context.Context, key Key) (Decision, error) {
	return l.PeekN(ctx, key, 1)
}

// PeekN returns what AllowN would decide, with its errors, and takes nothing. Remaining is what could be taken
// now.
func (l *Limiter) PeekN(ctx context.Context, key Key, n int64) (Decision, error) {
	r := l.request(ctx, key, n)
	r.Peek = true
	return l.store.Decide(ctx, r)
}

// Debit takes n units whatever is left, for work that is done already. The decision reports whether they were there,
// and what is left now: see [Request.Debit]. For several limits at once, give requests with Debit to [AllowAll].
// The error is one of [Store]. It wraps ErrUnsupported for a limit that cannot owe units: see [Limit.TakesDebits].
func (l *Limiter) Debit(ctx context.Context, key Key, n int64) (Decision, error) {
	r := l.request(ctx, key, n)
	r.Debit = true
	return l.store.Decide(ctx, r)
}

// Reset forgets what key has used, and lifts its ban. After an error both stay, unless it wraps ErrUnknownOutcome.
func (l *Limiter) Reset(ctx context.Context, key Key) error {
	r := l.request(ctx, key, 0)
	if r.lacksLimit() {
		return r.problem()
	}
	return l.store.Reset(ctx, r.Limit, key)
}

// Reserve takes one unit ahead of time. It is shorthand for ReserveN(ctx, key, 1, maxWait).
func (l *Limiter) Reserve(ctx context.Context, key Key, maxWait time.Duration) (*Reservation, error) {
	return l.ReserveN(ctx, key, 1, maxWait)
}

// ReserveN takes n units ahead of time, if they become available within maxWait. The caller acts after the Delay of the
// reservation's Decision. A maxWait of zero refuses any delay. A token bucket goes into debt for the units. A leaky
// bucket gives a turn in its queue. Windows and logs reserve only what is available now.
//
// A denied reservation has taken nothing and need not be ended. An error is one of [Store]: nothing was reserved, unless it
// wraps ErrUnknownOutcome.
func (l *Limiter) ReserveN(ctx context.Context, key Key, n int64, maxWait time.Duration) (*Reservation, error) {
	r := l.request(ctx, key, n)
	r.MaxWait = atMost(maxWait)
	d, err := l.store.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	return newReservation(l.store, &r, d), nil
}

// atMost returns the MaxWait of a request that waits for d at most.
func atMost(d time.Duration) time.Duration {
	if d <= 0 {
		return NoWait
	}
	return d
}

// forever is the longest wait if a context has no deadline.
const forever = time.Duration(math.MaxInt64)

// Wait takes one unit as soon as it is available. It is shorthand for WaitN(ctx, key, 1).
func (l *Limiter) Wait(ctx context.Context, key Key) error { return l.WaitN(ctx, key, 1) }

// WaitN takes n units as soon as they are available, and returns when the caller may act.
//
// If waiting is useless, WaitN fails at once and takes nothing. It returns ErrNever if n can never
// fit, and ErrDeadline if the wait would outlast the context's deadline. If the context ends
// during the wait, WaitN gives back what it took and returns the context's error.
//
// Callers that wait for a bucket act in the order of their calls. Windows and logs do not reserve
// future units: WaitN retries when they have room.
func (l *Limiter) WaitN(ctx context.Context, key Key, n int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := forever
		if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
		r, err := l.ReserveN(ctx, key, n, left)
		if err != nil {
			return err
		}
		d := r.Decision()
		if d.Allowed {
			if err := sleep(ctx, d.Delay); err != nil {
				return errors.Join(err, r.giveBack(context.WithoutCancel(ctx))) // although the context has ended
			}
			return nil
		}
		switch {
		case d.Reason == ReasonNever && n > r.charge.Limit.Capacity():
			return fmt.Errorf("%w: cost %d, and limit %q has %d", ErrNever, n, r.charge.Limit.Name(), r.charge.Limit.Capacity())
		case d.Reason == ReasonNever || d.RetryAfter >= left:
			return r.late()
		}
		if left < forever {
			if err := l.checkRetry(ctx, r, left-d.RetryAfter); err != nil {
				return err
			}
		}
		if err := sleep(ctx, max(d.RetryAfter, time.Microsecond)); err != nil {
			return err
		}
	}
}

// checkRetry returns ErrDeadline if a retry of a denied reservation would fail. After RetryAfter
// the queue has room for the retry, but its turn may come after the time that is left then.
func (l *Limiter) checkRetry(ctx context.Context, r *Reservation, left time.Duration) error {
	c := &r.charge
	switch c.Limit.params.Kind {
	case algo.KindBucket, algo.KindWarmBucket, algo.KindLeaky:
	default:
		return nil // the others have no queue
	}
	d, err := l.store.Decide(ctx, Request{
		Limit: c.Limit, Key: c.Key, Cost: c.Cost, MaxWait: max(left, time.Microsecond), Peek: true,
	})
	if err == nil && !d.Allowed && (d.Reason == ReasonNever || d.RetryAfter > r.decision.RetryAfter) {
		return r.late()
	}
	return err
}

// late returns the error of a wait for a denied reservation that would last too long.
func (r *Reservation) late() error {
	return fmt.Errorf("%w: cost %d of limit %q", ErrDeadline, r.charge.Cost, r.charge.Limit.Name())
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

// Acquire takes one unit of a concurrency limit. It is shorthand for AcquireN(ctx, key, 1).
func (l *Limiter) Acquire(ctx context.Context, key Key) (*Lease, error) {
	return l.AcquireN(ctx, key, 1)
}

// AcquireN takes n units of a concurrency limit, or none. The caller holds them until it
// releases the lease. Only a concurrency limit has leases; AcquireN fails with ErrUnsupported
// for the others.
//
// The lease's OK reports whether the units were taken. The Delay of its Decision is the estimated
// wait of a request in the queue, see [Lease.Renew]. A denied lease holds nothing and need not be
// released.
func (l *Limiter) AcquireN(ctx context.Context, key Key, n int64) (*Lease, error) {
	r := l.request(ctx, key, n)
	if r.lacksLimit() {
		return nil, r.problem()
	}
	if !r.Limit.IsConcurrency() {
		return nil, r.unsupported("only a concurrency limit grants leases; use Limiter.Allow")
	}
	r.Member = rand.Uint64()
	d, err := l.store.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	return newLease(l.store, &r, d), nil
}
