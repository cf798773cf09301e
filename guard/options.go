package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Options are the settings of a Store. An option without a default is required.
type Options struct {
	// Store is the store to guard. If it is a driver.Sharded, each shard has a circuit breaker and
	// a bound on calls in flight of its own. It must not be a guard itself. Its receipts must
	// come from package algo: times in microseconds, or their complements.
	Store sluice.Store
	// Local decides for sluice.FallbackLocal. It is a bounded store in this process, such as
	// memory.New returns. It must not block, because it is called without a deadline. It may
	// have other users: the guard's limits have names of their own there. Default: none, and
	// sluice.FallbackLocal allows.
	Local sluice.Store
	// Share is how much of a limit Local may admit by itself, such as 1/4 for one of
	// four processes. Default: 1/1, so that N processes admit up to N times the limit
	// while the store is down.
	//
	// It scales each number of a limit. Rates of buckets are exact, or the nearest lower rate
	// that can be counted. A burst, a debt, the count of a window or log, and the maximum of a
	// concurrency limit are rounded down, but never below one. Queues are rounded down, and may
	// become zero. Minimum intervals grow as rates shrink, up to the period. Times do not change.
	// The floor of a request is rounded down, and leaves at least one unit.
	//
	// So N processes with a share of 1/N admit at most the limit together, if each number is N or
	// more. If a number is smaller than N, each process still has one unit: N in all. A leaky
	// bucket lets one more unit depart at once in each process.
	Share sluice.Share
	// Fallback returns the fallback of each limit. It is called for each decision that the
	// store did not make, and must be safe for concurrent use. Default: FallbackDefault for all
	// limits. See Store.SetFallback.
	Fallback func(l *sluice.Limit) sluice.Fallback
	// Default is the fallback of limits for which Fallback returns FallbackDefault. Default: FallbackLocal if
	// Options.Local is set, otherwise FallbackAllow.
	Default sluice.Fallback

	// Deadline is how long a call of the store may take. It may be up to a 32nd less, because
	// calls that begin at about the same time share a timer. It should be less than the
	// callers' own deadlines. A caller with an earlier deadline gets an error, not a decision
	// of the fallback, until the breaker has opened. Default: 50ms.
	Deadline time.Duration
	// Slow is how long a call may take without counting as failed. The answer of a slower
	// call is used, but the breaker counts a failure. Default: Deadline.
	Slow time.Duration
	// MaxInFlight is how many calls of the store may be in flight, including calls that have
	// not returned by their deadline. Beyond that, the fallback decides at once. For a Sharded
	// store, it is the bound for each shard. Default: 1024.
	MaxInFlight int
	// Failures is how many calls in a row must fail to open the breaker. It also opens when
	// that many calls fail within a second, unless successes outnumber failures since the first
	// of these failures. Default: 10.
	Failures int
	// Retry is the longest time that an open breaker waits before the next request probes the
	// store. The time is random, from a half of Retry to all of it. Default: 500ms, with which
	// a recovery is detected within 600ms of the first request.
	Retry time.Duration
	// Inline calls the store on the goroutine of the caller, which is cheaper. The store must
	// return when its context ends: at the deadline, or at the caller's own deadline. A caller
	// that is cancelled still waits for the store. Without Inline, each call has a goroutine
	// of its own, and the caller leaves it behind. Default: false.
	Inline bool
	// MaxLeases is how many leases the guard remembers, with the layer that granted each.
	// While that layer cannot be called, renewals of other leases count as new leases. Default:
	// 100,000, which take up to 20 MB.
	MaxLeases int

	// OnTransition is called for each change of a breaker's state, in order and one at a
	// time. A caller of the store waits for it, so it should return at once. The argument why
	// is the reason for which the breaker opens; it is nil for all other changes. Default:
	// none.
	OnTransition func(from, to State, why error)
}

const (
	defaultDeadline  = 50 * time.Millisecond
	defaultInFlight  = 1024
	defaultFailures  = 10
	defaultRetry     = 500 * time.Millisecond
	defaultMaxLeases = 100_000
)

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	if o.Store == nil {
		return errors.New("guard: Options.Store is missing; give the store to guard")
	}
	for _, s := range []sluice.Store{o.Store, o.Local} {
		if _, ok := s.(*Store); ok {
			return errors.New("guard: Options.Store or Local is a guard itself, whose receipts could not be distinguished; give the store that it guards")
		}
	}
	if o.Share == (sluice.Share{}) {
		o.Share = sluice.Share{Of: 1, Parts: 1}
	}
	if err := o.Share.Check(); err != nil {
		return fmt.Errorf("guard: Options.Share: %w", err)
	}
	switch {
	case o.Default > sluice.FallbackLocal:
		return fmt.Errorf("guard: Options.Default is %d; give sluice.FallbackLocal, FallbackAllow or FallbackDeny", o.Default)
	case o.Default == sluice.FallbackLocal && o.Local == nil:
		return errors.New("guard: Options.Default is sluice.FallbackLocal and there is no Local; give a store such as one of package memory")
	case o.Default == sluice.FallbackDefault && o.Local != nil:
		o.Default = sluice.FallbackLocal
	case o.Default == sluice.FallbackDefault:
		o.Default = sluice.FallbackAllow
	}
	for _, d := range []struct {
		name   string
		value  *time.Duration
		preset time.Duration
	}{{"Deadline", &o.Deadline, defaultDeadline}, {"Retry", &o.Retry, defaultRetry}} {
		if *d.value == 0 {
			*d.value = d.preset
		}
		if *d.value < time.Millisecond || *d.value > time.Minute {
			return fmt.Errorf("guard: Options.%s is %v; give %v to %v, or 0 for %v", d.name, *d.value, time.Millisecond, time.Minute, d.preset)
		}
	}
	if o.Slow == 0 {
		o.Slow = o.Deadline
	}
	if o.Slow < 0 || o.Slow > o.Deadline {
		return fmt.Errorf("guard: Options.Slow is %v; give up to the deadline, which is %v, or 0 for that", o.Slow, o.Deadline)
	}
	for _, n := range []struct {
		name         string
		value        *int
		preset, most int
	}{
		{"MaxInFlight", &o.MaxInFlight, defaultInFlight, 1 << 20},
		{"Failures", &o.Failures, defaultFailures, 1 << 20},
		{"MaxLeases", &o.MaxLeases, defaultMaxLeases, 1 << 24},
	} {
		if *n.value == 0 {
			*n.value = n.preset
		}
		if *n.value < 1 || *n.value > n.most {
			return fmt.Errorf("guard: Options.%s is %d; give 1 to %d, or 0 for %d", n.name, *n.value, n.most, n.preset)
		}
	}
	return nil
}
