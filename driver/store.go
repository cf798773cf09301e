package driver

import (
	"context"

	"github.com/sluicehq/sluice"
)

// Taker is a Store that also decides the simplest requests: some units of a limit and nothing
// else. Take returns what Decide would return. Its arguments fit into registers, which saves a
// tenth of the time of a decision in memory. A [sluice.Limiter] calls Take if its store has it.
// Take returns the errors of Decide, and is safe for concurrent use.
type Taker interface {
	Take(ctx context.Context, l *sluice.Limit, k sluice.Key, cost int64) (sluice.Decision, error)
}

// Fetcher is a Store that can load a state into a cache of the processor ahead of the decision. Package policy calls it
// before it searches many overrides, so that the two wait for memory at the same time. All methods are safe for
// concurrent use.
type Fetcher interface {
	sluice.Store
	// Fetch begins to load the state of a limit's key, and does not wait. It changes nothing, and keeps neither the
	// limit nor the key.
	Fetch(l *sluice.Limit, k sluice.Key)
}

// Sharded is a Store whose keys are on several servers, which fail one by one, such as the masters
// of a cluster. Package guard keeps what it has learned about one server apart from the others.
// All methods are safe for concurrent use.
type Sharded interface {
	sluice.Store
	// Shard returns the number of the server that decides about a key: 0 or a little more. It
	// does not block, and servers may change their numbers.
	Shard(k sluice.Key) int
}

// LocalDecider is a Store that decides some requests by itself, without a call that can block or
// fail. Package guard makes such decisions without a deadline or a circuit breaker.
// All methods are safe for concurrent use.
type LocalDecider interface {
	sluice.Store
	// DecideLocally returns what Decide would return, or false if that needs a call. Then it has
	// changed nothing.
	DecideLocally(r sluice.Request) (d sluice.Decision, ok bool)
	// DecideAllLocally does what DecideAll would do, or returns false and changes nothing but out.
	DecideAllLocally(rs []sluice.Request, out []sluice.Decision) (ok bool)
}
