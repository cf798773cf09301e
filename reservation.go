package sluice

import (
	"context"
	"errors"
	"sync/atomic"
)

// Reservation is units taken ahead of time. It is ended once: by acting after its
// delay, which needs no call, by Cancel, or by Settle when the cost turns
// out to be another one. An end that fails, and changed nothing, can be tried again.
// It is safe for concurrent use.
type Reservation struct {
	store    Store
	charge   Charge
	decision Decision
	ended    atomic.Bool
}

func newReservation(store Store, r *Request, d Decision) *Reservation {
	return &Reservation{store: store, charge: r.Charge(&d), decision: d}
}

// Decision returns the answer; if it is a denial, nothing was taken.
func (r *Reservation) Decision() Decision { return r.decision }

// OK reports whether the units were taken.
func (r *Reservation) OK() bool { return r.decision.Allowed }

// Cancel gives the units back before the moment at which the reservation acts, less what later
// reservations stand on; after that moment it gives back nothing. The second end of a
// reservation is ErrEnded. Of a reservation that was denied there is nothing to cancel.
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.decision.Allowed {
		return nil
	}
	return end(&r.ended, func() error { return r.store.Cancel(ctx, r.charge) })
}

// end ends what can be ended once: by a call that succeeds, or of which nobody
// knows whether it did. A call that changed nothing may be made again.
func end(ended *atomic.Bool, call func() error) error {
	if ended.Swap(true) {
		return ErrEnded
	}
	err := call()
	if err != nil && !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrLeaseLost) {
		ended.Store(false)
	}
	return err
}

// Settle replaces the cost by what it turned out to be, now: a token bucket is
// credited up to its burst, or charged into its debt; a window or log while the
// charge still counts; a leaky bucket while nobody stands behind.
func (r *Reservation) Settle(ctx context.Context, actual int64) error {
	if actual < 0 {
		return &RequestError{Limit: r.charge.Limit.Name(), Problem: "the actual cost is negative; give 0 or more"}
	}
	if !r.decision.Allowed {
		return &RequestError{Limit: r.charge.Limit.Name(), Problem: "a reservation that was denied has nothing to settle"}
	}
	return end(&r.ended, func() error { return r.store.Settle(ctx, r.charge, actual) })
}
