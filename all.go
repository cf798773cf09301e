package sluice

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// AllowAll takes the costs of several requests, or none of them: for example of one user's limit and of a limit for
// everybody. [Limiter.Request] returns the request for one unit.
//
// The decision is the tightest one: a denial before an allowance, never before a long wait. Its Delay is the longest of
// all, so that the caller waits once. Shadow requests do not count. An error is one of [Store.DecideAll].
func AllowAll(ctx context.Context, store Store, requests ...Request) (Decision, error) {
	d, _, err := decideAll(ctx, store, requests)
	return d, err
}

// decideAll decides requests, and returns the tightest decision and all of them.
func decideAll(ctx context.Context, store Store, requests []Request) (Decision, []Decision, error) {
	if len(requests) == 0 {
		return Decision{}, nil, &RequestError{Problem: "there is none; give one request or more"}
	}
	all := make([]Decision, len(requests))
	err := store.DecideAll(ctx, requests, all)
	var denial *DenialError
	switch {
	case errors.As(err, &denial):
		var d Decision
		for i, one := range denial.Denied {
			all[i] = one
			if d.Reason == ReasonNone || one.Tighter(&d) {
				d = one
			}
		}
		return d, all, nil
	case err != nil:
		return Decision{}, nil, err
	}
	d, found, delay := Decision{Allowed: true}, false, time.Duration(0)
	for i := range all {
		if requests[i].Shadow {
			continue
		}
		if !found || all[i].Tighter(&d) {
			d, found = all[i], true
		}
		delay = max(delay, all[i].Delay)
	}
	if d.Allowed {
		d.Delay = delay
	}
	return d, all, nil
}

// Reservations hold the units of several limits, which were taken together. OK reports whether they were taken. The
// caller acts after the Delay of the Decision.
//
// They end as a [Reservation] does: by Cancel, by Settle, or by acting, which needs no call unless there is a lease.
// Reservations are safe for concurrent use.
type Reservations struct {
	decision Decision
	each     []held
}

// A held charge is a reservation or a lease; none for a request that took nothing.
type held struct {
	reservation *Reservation
	lease       *Lease
}

// ReserveAll takes the costs of several requests ahead of time, if all become available within maxWait, or none of them.
// Requests to a concurrency limit become leases without a wait, which Cancel and Settle release. See [Limiter.ReserveN] and [AllowAll].
func ReserveAll(ctx context.Context, store Store, maxWait time.Duration, requests ...Request) (*Reservations, error) {
	rs := append([]Request(nil), requests...)
	for i := range rs {
		r := &rs[i]
		r.MaxWait = atMost(maxWait)
		if r.Limit != nil && r.Limit.IsConcurrency() {
			r.MaxWait = NoWait
			if r.Member == 0 {
				r.Member = rand.Uint64()
			}
		}
	}
	d, all, err := decideAll(ctx, store, rs)
	if err != nil {
		return nil, err
	}
	reserved := &Reservations{decision: d, each: make([]held, len(rs))}
	for i := range rs {
		r := &rs[i]
		took := all[i].Allowed && r.Cost > 0 && !r.Peek && (d.Allowed || r.Shadow || r.Debit)
		switch {
		case !took:
		case r.Limit.IsConcurrency():
			reserved.each[i].lease = newLease(store, r, all[i])
		default:
			reserved.each[i].reservation = newReservation(store, r, all[i])
		}
	}
	return reserved, nil
}

// Decision returns the tightest decision, with the longest delay. A denial took nothing.
func (r *Reservations) Decision() Decision { return r.decision }

// OK reports whether the units were taken.
func (r *Reservations) OK() bool { return r.decision.Allowed }

// Cancel gives back all units that were not settled, and releases leases. A charge whose moment has passed is not given
// back, and Cancel returns ErrActed: see [Reservation.Cancel]. It returns ErrEnded if all have already ended.
func (r *Reservations) Cancel(ctx context.Context) error {
	return r.end(func(i int) error {
		if l := r.each[i].lease; l != nil {
			return l.Release(ctx)
		}
		return r.each[i].reservation.Cancel(ctx)
	})
}

// Settle replaces the costs by the actual costs, one for each request in its order, and releases leases, whose numbers do
// not count. What fails can be settled again: the others keep their first end. It returns ErrEnded if all have already
// ended, and a *RequestError for another number of costs. See [Reservation.Settle].
func (r *Reservations) Settle(ctx context.Context, actual ...int64) error {
	if len(actual) != len(r.each) {
		return &RequestError{Problem: fmt.Sprintf("%d actual costs for %d requests; give one for each", len(actual), len(r.each))}
	}
	return r.end(func(i int) error {
		if l := r.each[i].lease; l != nil {
			return l.Release(ctx)
		}
		return r.each[i].reservation.Settle(ctx, actual[i])
	})
}

// end ends all charges that have not ended. It returns ErrEnded if there is none of them.
func (r *Reservations) end(one func(i int) error) error {
	var errs []error
	charged, ended := 0, 0
	for i := range r.each {
		if r.each[i] == (held{}) {
			continue
		}
		charged++
		switch err := one(i); {
		case errors.Is(err, ErrEnded):
			ended++
		case err != nil:
			errs = append(errs, err)
		}
	}
	if charged > 0 && ended == charged {
		return ErrEnded
	}
	return errors.Join(errs...)
}
