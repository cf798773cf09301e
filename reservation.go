package sluice

import (
	"context"
	"errors"
	"sync"
)

// Reservation holds units that were taken ahead of time. OK reports whether they were taken. The
// caller acts after the Delay of the Decision.
//
// A reservation ends once: by Cancel before its moment, by Settle if the actual cost differs, or by acting, which
// needs no call. After an end that failed and changed nothing, the caller can end it again. So a deferred Cancel does
// no harm after Settle, and gives the units back if the caller stops before the reservation's moment:
//
//	defer r.Cancel(ctx)
//	used := work()
//	return r.Settle(ctx, used)
//
// A caller that stops later, and has used nothing, settles at 0.
//
// A Reservation is safe for concurrent use. An end waits for another one in progress.
type Reservation struct {
	store    Store
	charge   Charge
	decision Decision

	mu    sync.Mutex
	ended bool
}

func newReservation(store Store, r *Request, d Decision) *Reservation {
	return &Reservation{store: store, charge: r.Charge(&d), decision: d}
}

// Decision returns the decision about the reservation. A denied reservation took nothing.
func (r *Reservation) Decision() Decision { return r.decision }

// OK reports whether the units were taken.
func (r *Reservation) OK() bool { return r.decision.Allowed }

// Cancel gives back the units, except units on which later reservations rely. After the moment at
// which the reservation acts, Cancel changes nothing and returns ErrActed: the work may have begun.
// Without a Delay, this is the moment of the decision. The reservation has not ended then, and Settle(ctx, 0) gives back
// what the algorithm still can.
//
// Cancel returns ErrEnded if the reservation has already ended, and does nothing for a denied one.
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.decision.Allowed {
		return nil
	}
	return r.end(func() error { return r.store.Cancel(ctx, r.charge) })
}

// giveBack gives back units that the caller has not used, also after the moment at which the reservation acts.
func (r *Reservation) giveBack(ctx context.Context) error {
	err := r.Cancel(ctx)
	if errors.Is(err, ErrActed) {
		err = r.Settle(ctx, 0)
	}
	return err
}

// end makes a call that ends the reservation, once. The caller may retry only if the call surely changed nothing.
func (r *Reservation) end(call func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ErrEnded
	}
	err := call()
	r.ended = err == nil || errors.Is(err, ErrUnknownOutcome)
	return err
}

// Settle replaces the cost by the actual cost, at the moment of the call. A token bucket is
// credited up to its burst, or charged into its debt. A window or a log changes while the
// charge still counts. A leaky bucket changes while no later request is in its queue. Settle returns ErrEnded if the
// reservation has already ended. A denied reservation can be settled at 0 only, which does nothing.
func (r *Reservation) Settle(ctx context.Context, actual int64) error {
	if actual < 0 {
		return &RequestError{Limit: r.charge.Limit.Name(), Problem: "the actual cost is negative; give 0 or more"}
	}
	if !r.decision.Allowed {
		if actual == 0 {
			return nil
		}
		return &RequestError{Limit: r.charge.Limit.Name(), Problem: "a reservation that was denied took nothing, so no cost can be settled"}
	}
	return r.end(func() error { return r.store.Settle(ctx, r.charge, actual) })
}
