package gate

import (
	"context"
	"sync/atomic"

	"github.com/sluicehq/sluice/policy"
)

// Admission is a request that Gate.Enter has admitted. A nil Admission has nothing to end.
// It belongs to one request, and is safe for concurrent use.
type Admission struct {
	gate    *Gate
	results []policy.LimitResult
	leases  *leases
	left    atomic.Bool
}

// Settles reports whether Leave needs the outcome to settle charges.
func (a *Admission) Settles() bool {
	if a == nil {
		return false
	}
	if a.gate.o.Counts != nil {
		return true
	}
	for i := range a.results {
		if r := &a.results[i]; r.Charged() && r.Settles() {
			return true
		}
	}
	return false
}

// settles reports whether a charge must be settled: its cost may be another one, or it would be given back.
func settles(r *policy.LimitResult) bool { return r.Settles() || r.Request.Hold > 0 }

// Leave ends the request's leases, unless its work may go on: then they end by their time to live. It settles the other
// charges at the real cost of the request, which is zero for a request that does not count. Call it once, when the
// request has been handled or has panicked; a second call does nothing. The end of ctx does not stop it; the values of
// ctx are for Options.OnError.
func (a *Admission) Leave(ctx context.Context, o policy.Outcome) {
	if a == nil || a.left.Swap(true) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if o.Running {
		a.leases.abandon()
	} else {
		a.leases.release(ctx)
	}
	counts := o.Unknown || a.gate.o.Counts == nil || a.gate.o.Counts(o)
	for i := range a.results {
		r := &a.results[i]
		if !r.Charged() || r.IsLease() {
			continue
		}
		actual := int64(0)
		if counts {
			actual = r.Actual(o)
		}
		if actual != r.Request.Cost || r.Request.Hold > 0 {
			a.gate.report(ctx, a.gate.store.Settle(ctx, r.Charge(), actual))
		}
	}
}

// undo gives back the charges of a request that will not be handled.
func (a *Admission) undo(ctx context.Context) {
	a.left.Store(true)
	a.leases.cancel(ctx)
	for i := range a.results {
		r := &a.results[i]
		if r.IsLease() {
			r.Returned = true // or it will be: see Gate.endLater
			continue
		}
		a.gate.report(context.WithoutCancel(ctx), r.GiveBack(ctx, a.gate.store))
	}
}
