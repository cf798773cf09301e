package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AllowAll takes the costs of several requests, or none of them: for example of one user's limit and of a limit for
// everybody. [Limiter.Request] returns the request for one unit.
//
// The decision is the tightest one: a denial before an allowance, never before a long wait. Its Delay is the longest of
// all, so that the caller waits once. Shadow requests do not count. An error means that nothing was decided or charged,
// unless it wraps ErrUnknownOutcome.
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
	var denial interface{ Denials() map[int]Decision } // a *driver.DenialError
	switch {
	case errors.As(err, &denial):
		var d Decision
		for _, one := range denial.Denials() {
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
// caller acts after the Delay of the Decision. They end as a [Reservation] does, and are safe for concurrent use.
type Reservations struct {
	decision Decision
	acts     time.Time // the moment at which the caller acts, later than most charges
	each     []*Reservation
}

// ReserveAll takes the costs of several requests ahead of time, if all become available within maxWait, or none of them.
// See [Limiter.ReserveN] and [AllowAll]. A request to a concurrency limit, a debit, a shadow or a peek is a
// *RequestError: only plain requests can be reserved.
func ReserveAll(ctx context.Context, store Store, maxWait time.Duration, requests ...Request) (*Reservations, error) {
	rs := append([]Request(nil), requests...)
	for i := range rs {
		r := &rs[i]
		if r.lacksLimit() {
			return nil, r.problem()
		}
		if r.Limit.IsConcurrency() {
			return nil, r.unsupported("a concurrency limit grants leases, which cannot be reserved; use Limiter.Acquire")
		}
		if r.Debit || r.Shadow || r.Peek {
			return nil, &RequestError{Limit: r.Limit.Name(), Problem: "is a debit, a shadow or a peek; ReserveAll takes plain requests"}
		}
		r.MaxWait = atMost(maxWait)
	}
	d, all, err := decideAll(ctx, store, rs)
	if err != nil {
		return nil, err
	}
	reserved := &Reservations{decision: d, acts: time.Now().Add(d.Delay), each: make([]*Reservation, len(rs))}
	for i := range rs {
		all[i].Allowed = d.Allowed // one denial denies all
		reserved.each[i] = newReservation(store, &rs[i], all[i])
	}
	return reserved, nil
}

// Decision returns the tightest decision, with the longest delay. A denial took nothing.
func (r *Reservations) Decision() Decision { return r.decision }

// OK reports whether the units were taken.
func (r *Reservations) OK() bool { return r.decision.Allowed }

// Cancel gives back the units before the Delay of the Decision is over. Afterwards it changes nothing and returns
// ErrActed, see [Reservation.Cancel]. It returns ErrEnded if all have already ended.
func (r *Reservations) Cancel(ctx context.Context) error {
	early := time.Now().Before(r.acts) // also if some charges have acted already
	return r.end(func(i int) error {
		if early {
			return r.each[i].giveBack(ctx)
		}
		return r.each[i].Cancel(ctx)
	})
}

// Settle replaces the costs by the actual cost of all requests, or by one for each request in its order: see
// [Reservation.Settle]. What fails can be settled again, and the others keep their first end. Settle returns ErrEnded if
// all have already ended, and a *RequestError for another number of costs.
func (r *Reservations) Settle(ctx context.Context, actual ...int64) error {
	if len(actual) != 1 && len(actual) != len(r.each) {
		return &RequestError{Problem: fmt.Sprintf("%d actual costs for %d requests; give one for all, or one for each", len(actual), len(r.each))}
	}
	return r.end(func(i int) error { return r.each[i].Settle(ctx, actual[min(i, len(actual)-1)]) })
}

// end ends all reservations that have not ended. It returns ErrEnded if there is none of them.
func (r *Reservations) end(one func(i int) error) error {
	var errs []error
	for i := range r.each {
		if err := one(i); !errors.Is(err, ErrEnded) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return ErrEnded
	}
	return errors.Join(errs...)
}
