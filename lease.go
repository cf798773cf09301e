package sluice

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Lease holds units of a concurrency limit until Release, or until its TTL ends. OK reports
// whether the units were taken. A Lease is safe for concurrent use.
type Lease struct {
	store    Store
	request  Request
	decision Decision
	granted  time.Time
	state    atomic.Uint32 // leaseHeld and so on
	latency  time.Duration // at the first Release; belongs to the call that has set leaseEnding
}

// The states of a lease.
const (
	leaseHeld   = iota
	leaseEnding // a Release is in progress
	leaseUnsure // a Release may have ended it
	leaseEnded
)

func newLease(store Store, r *Request, d Decision) *Lease {
	// A request in the queue begins after its delay: waiting is not work.
	return &Lease{store: store, request: *r, decision: d, granted: time.Now().Add(d.Delay)}
}

// Decision returns the decision about the lease. A denied lease holds nothing.
func (l *Lease) Decision() Decision { return l.decision }

// OK reports whether the units were taken.
func (l *Lease) OK() bool { return l.decision.Allowed }

// Renew prolongs the lease to a whole TTL from now. The Delay of the new decision is the
// estimated wait while the request is still in the queue, and zero once it may run.
//
// Renew takes a lost lease again if there is room, and returns ErrLeaseLost if there is none.
// A denied lease cannot be renewed.
func (l *Lease) Renew(ctx context.Context) (Decision, error) {
	if !l.decision.Allowed {
		return Decision{}, &RequestError{Limit: l.request.Limit.Name(), Problem: "a lease that was denied holds nothing to renew; acquire another one"}
	}
	if l.state.Load() != leaseHeld {
		return Decision{}, ErrEnded
	}
	d, err := l.store.Decide(ctx, l.request)
	if err == nil && !d.Allowed {
		err = ErrLeaseLost
	}
	return d, err
}

// Release gives the units back, and reports to the limit how long they were held. The limit uses
// this time to estimate the delays of its queue. Release returns ErrLeaseLost if the TTL had
// already ended, and ErrEnded if the lease was already released. It does nothing for a denied
// lease.
//
// After any other error, Release can be repeated, even if the outcome is unknown: it ends this lease
// only, and once. It returns nil if an earlier call has ended the lease.
func (l *Lease) Release(ctx context.Context) error {
	if !l.decision.Allowed {
		return nil
	}
	before := l.state.Load()
	if before != leaseHeld && before != leaseUnsure || !l.state.CompareAndSwap(before, leaseEnding) {
		return ErrEnded
	}
	if l.latency == 0 {
		l.latency = max(1, time.Since(l.granted))
	}
	err := l.store.Release(ctx, l.request.Charge(&l.decision), l.latency)
	after := before
	switch {
	case err == nil:
		after = leaseEnded
	case errors.Is(err, ErrUnknownOutcome):
		after = leaseUnsure
	case errors.Is(err, ErrLeaseLost):
		after = leaseEnded
		if before == leaseUnsure {
			err = nil // an earlier call has released it
		}
	}
	l.state.Store(after)
	return err
}
