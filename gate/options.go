package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Options are the settings of a Gate. The zero Options are the defaults.
type Options struct {
	// MaxDelay is the longest time that any request waits, whatever its rule accepts; negative for
	// none. Default: the MaxWait with which the request was decided, such as Rule.MaxWait; without one,
	// 10 seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many requests may wait at once, for all rules together. Default: as many as the
	// queues of the rules hold, and 1,024 for limits outside of rules.
	MaxWaiting int
	// Window is the least time over which pressure is measured. A limit with a longer period, or a
	// bucket that takes longer to fill, is measured over that time. Default: 10 seconds.
	Window time.Duration
	// Share is this process's part of each limit: 1/N if N processes share a store evenly. Pressure is
	// the demand of this process divided by its share. Default: 1.
	Share sluice.Share
	// Counts reports whether a handled request counts. A request must also count for its rules: see
	// policy.Rule.CountStatus. The charges of a request that does not count are given back. It must be
	// safe for concurrent use. Default: all count.
	Counts func(o policy.Outcome) bool
	// Clock returns the time in microseconds since the epoch, over which pressure is measured. It must be safe for
	// concurrent use. With a store that has a clock of its own, such as for a replay, give the same one. Waits and leases
	// follow the real time. Default: the monotonic clock.
	Clock func() int64
	// OnError gets the store's errors when leases are renewed or ended, and when charges are settled or
	// given back. No request fails because of them. It must be safe for concurrent use. Default: errors
	// are dropped.
	OnError func(ctx context.Context, err error)
}

const (
	defaultDelay   = 10 * time.Second
	defaultWaiting = 1024
	defaultWindow  = 10 * time.Second
	leastWindow    = time.Millisecond
)

func (o *Options) complete() error {
	switch {
	case o.MaxWaiting < 0:
		return fmt.Errorf("gate: Options.MaxWaiting is %d; give 1 or more, or 0 for the default; to let none wait, give a negative MaxDelay", o.MaxWaiting)
	case o.Window != 0 && o.Window < leastWindow:
		return fmt.Errorf("gate: Options.Window is %v; give %v or more, or 0 for %v", o.Window, leastWindow, defaultWindow)
	}
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	if o.Share == (sluice.Share{}) {
		o.Share = sluice.Share{Of: 1, Parts: 1}
	}
	if err := o.Share.Check(); err != nil {
		return fmt.Errorf("gate: Options.Share: %w", err)
	}
	if o.OnError == nil {
		o.OnError = func(context.Context, error) {}
	}
	return nil
}

// most returns how long a request may wait for a limit; negative if it may not wait.
func (o *Options) most(r *policy.LimitResult) time.Duration {
	most := r.Request.MaxWait
	switch {
	case most == 0 && o.MaxDelay != 0:
		return o.MaxDelay
	case most == 0:
		return defaultDelay
	case o.MaxDelay != 0:
		return min(most, o.MaxDelay)
	}
	return most
}
