package sluice

import (
	"context"
	"sync/atomic"
	"time"
)

// Lease is units of a concurrency limit, held until Release or until its time to
// live ends. It is safe for concurrent use.
type Lease struct {
	store   Store
	request Request
	charge  Charge
	granted time.Time
	ended   atomic.Bool
}

func newLease(store Store, r Request, d *Decision) *Lease {
	// Who is queued begins after its delay: waiting is no work.
	return &Lease{store: store, request: r, charge: r.Charge(d), granted: time.Now().Add(d.Delay)}
}

// Renew prolongs the lease by a whole time to live. The decision's Delay is the
// estimated wait of one that is still queued, zero for one that may run.
//
// A lease that was lost is taken anew if there is room.
func (l *Lease) Renew(ctx context.Context) (Decision, error) {
	if l.ended.Load() {
		return Decision{}, ErrEnded
	}
	d, err := l.store.Decide(ctx, l.request)
	if err == nil && !d.Allowed {
		err = ErrLeaseLost
	}
	return d, err
}

// Release gives the units back and reports how long they were held, from which
// the limit learns what a place in its queue costs. It returns ErrLeaseLost if the lease
// had ended by itself, and ErrEnded the second time.
func (l *Lease) Release(ctx context.Context) error {
	return end(&l.ended, func() error { return l.store.Release(ctx, l.charge, max(0, time.Since(l.granted))) })
}
