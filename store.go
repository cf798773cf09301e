package sluice

import (
	"context"
	"time"
)

// Store keeps the state of limits and owns the clock. All methods are safe for
// concurrent use, and the decisions about one key are linearizable. Package storetest
// holds the contract as tests.
//
// A denial is a Decision. An error means that nothing was decided or changed, or
// wraps ErrUnknownOutcome.
type Store interface {
	// Decide answers one request.
	Decide(ctx context.Context, r Request) (Decision, error)
	// DecideAll answers several requests as one: all are charged, or none is. The
	// answers are written to out, which is as long as rs. A request that asks
	// twice for the same limit and key adds up. Requests that Peek take nothing but can
	// deny; those that Shadow are decided and charged on their own. If any answer but
	// that of a shadow is a denial, nothing was charged, and the others say what each
	// limit would have answered alone. An error may be a *DenialError.
	DecideAll(ctx context.Context, rs []Request, out []Decision) error
	// Cancel gives back what a charge took, before the moment it acts, less what
	// later charges stand on; after that moment, nothing. A lease is released.
	Cancel(ctx context.Context, c Charge) error
	// Settle replaces the cost of a charge by what it turned out to be.
	Settle(ctx context.Context, c Charge, actual int64) error
	// Release ends a lease of a concurrency limit, which was held for latency. It
	// returns ErrLeaseLost if the lease had ended by itself.
	Release(ctx context.Context, c Charge, latency time.Duration) error
	// Reset forgets the state of a limit's key, and its ban, which is that of its name: what
	// another algorithm has counted under the name stays.
	Reset(ctx context.Context, l *Limit, k Key) error
}

// Taker is a Store that also answers the plainest of requests, for some units of a limit and
// nothing else, as Decide would. Its arguments fit into registers, which saves a tenth of the
// time of a decision in memory. A Limiter uses it where there is one.
type Taker interface {
	Take(ctx context.Context, l *Limit, k Key, cost int64) (Decision, error)
}

// taker is a Taker over any store.
type taker struct{ Store }

func (t taker) Take(ctx context.Context, l *Limit, k Key, cost int64) (Decision, error) {
	return t.Decide(ctx, Request{Limit: l, Key: k, Cost: cost})
}
