package sluice

import (
	"errors"
	"time"

	"github.com/sluicehq/sluice/algo"
)

// NoWait as a Request's MaxWait refuses any delay.
const NoWait time.Duration = -1

// Request is one question to a store: may Key take Cost units of Limit? Most
// callers let a Limiter make it.
type Request struct {
	Limit *Limit
	Key   Key
	// Cost is how many units are taken. Zero takes nothing and passes, unless the
	// key is banned or in debt.
	Cost int64
	// Floor is how many units must remain after the take: what is reserved for
	// more important requests.
	Floor int64
	// MaxWait is the longest delay that is acceptable. Zero means what the limit
	// itself offers: none for a token bucket, the queue of a leaky bucket or of a
	// concurrency limit. NoWait refuses any delay.
	MaxWait time.Duration
	// Member identifies the lease of a concurrency limit among those of its key.
	// Asking again with the same member renews the lease.
	Member uint64
	// Ban refuses a key outright after too many denials, or if it was banned by hand; nil
	// looks after no ban.
	Ban *Ban
	// Peek decides and writes nothing.
	Peek bool
	// Shadow decides and charges for itself, but never makes a batch fail.
	Shadow bool
}

// Check reports why a store cannot decide r, with a *RequestError, or nil.
func (r *Request) Check() error {
	if r.Limit != nil && r.Cost|r.Floor >= 0 && r.Ban == nil && r.Member|r.Limit.leaseless != 0 {
		return nil
	}
	return r.problem()
}

func (r *Request) problem() error {
	if r.Limit == nil {
		return &RequestError{Problem: "has no limit"}
	}
	fail := func(problem string) error { return &RequestError{Limit: r.Limit.Name(), Problem: problem} }
	switch {
	case r.Cost < 0:
		return fail("the cost is negative; to give units back, settle or cancel their reservation")
	case r.Floor < 0:
		return fail("the floor is negative; give 0 or more")
	case r.Limit.params.Kind == algo.KindConcurrency && r.Member == 0 && r.Cost > 0 && !r.Peek:
		return fail("a concurrency limit grants leases, which need a Member to be told apart; use Limiter.Acquire")
	}
	if r.Ban != nil {
		if err := r.Ban.Check(); err != nil {
			var bad *BanError // the first one
			errors.As(err, &bad)
			return fail("a ban's " + bad.Field + " " + withRemedy(bad.Problem, bad.Remedy))
		}
	}
	return nil
}

// Charge says what a decision took, for a store to settle or cancel it.
type Charge struct {
	Limit       *Limit
	Key         Key
	Cost, Floor int64
	Member      uint64
	Receipt     Receipt
}

// Charge returns the charge that d, a decision of r, has made.
func (r *Request) Charge(d *Decision) Charge {
	return Charge{r.Limit, r.Key, r.Cost, r.Floor, r.Member, d.Receipt}
}
