package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Options make a Store. Those without a default must be given.
type Options struct {
	// Store is the store to guard. Its receipts must be those of package algo: times
	// in microseconds, or their complement. Another guard's are not.
	Store sluice.Store
	// Local decides what is to be limited locally: a bounded store in this process,
	// such as one of package memory. It is asked without a deadline and must not block. It
	// may be used otherwise too: the guard's limits have names of their own there. Default: none,
	// and what is to be limited locally passes.
	Local sluice.Store
	// Share is how much of a limit Local may admit by itself, such as 1/4 for one of
	// four processes. Default: 1/1, so that N processes admit up to N times the limit
	// while the store is down.
	Share Share
	// Fallback says what stands in for the store, for each limit. It is called for each
	// decision that the store did not make, by many at once. Default: Default for all.
	// See Store.SetFallback.
	Fallback func(l *sluice.Limit) Fallback
	// Default is for the limits that Fallback leaves to it. Default: Local if there is
	// one, else Allow.
	Default Fallback

	// Deadline is how long a call of the store may take, or up to a 32nd less, for calls
	// that begin at about the same time share a timer. An answer comes within it, and what it
	// takes to be scheduled. A caller whose own deadline is earlier gets an error then, not
	// the ladder's answer, until the breaker has opened: give less than callers have.
	// Default: 50ms.
	Deadline time.Duration
	// Slow is how long a call may take to be none of a failing store: one that takes
	// longer counts as failed for the breaker, though its answer is used. Default: Deadline.
	Slow time.Duration
	// MaxInFlight is how many calls of the store there may be at once, also counting those
	// whose deadline has passed and that have not returned. Beyond, the ladder answers at
	// once. Default: 1024.
	MaxInFlight int
	// Failures is how many calls in a row fail before the breaker opens. It also opens
	// when, of the calls since the first failure within a second, that many failed and no
	// more succeeded. Default: 10.
	Failures int
	// Retry is the longest time after which the breaker lets a call pass as a probe: the
	// next one after a random time of half of it to all. Default: 500ms, with which
	// recovery is seen within 600ms of the first call.
	Retry time.Duration
	// Inline makes calls of the store on the goroutine of the caller, which is cheaper,
	// and trusts the store to return when its context ends: at the deadline, or at that of the
	// caller's context; a caller that is cancelled waits for the answer. Otherwise each call has a
	// goroutine of its own, which the caller leaves behind then.
	Inline bool
	// MaxLeases is how many leases are remembered for the layer that granted them. Renewals
	// of those beyond are taken for new leases when that layer cannot be asked. Default: 100,000,
	// which take up to 20 MB.
	MaxLeases int

	// OnTransition is told each change of the breaker's state, in order, one after
	// another and outside of locks, by one of the callers, who waits for it: it should return
	// at once. why is the failure that led to it, nil for a recovery. Default: none.
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
		return errors.New("guard: Store is missing; give the store to guard")
	}
	for _, s := range []sluice.Store{o.Store, o.Local} {
		if _, ok := s.(*Store); ok {
			return errors.New("guard: Store or Local is a guard itself, whose receipts could not be told apart; give the store that it guards")
		}
	}
	if o.Share == (Share{}) {
		o.Share = Share{1, 1}
	}
	if err := o.Share.check(); err != nil {
		return fmt.Errorf("guard: Share %w", err)
	}
	switch {
	case o.Default > Deny:
		return fmt.Errorf("guard: Default is %d; give Local, Allow or Deny", o.Default)
	case o.Default == Local && o.Local == nil:
		return errors.New("guard: Default is Local and there is no Local; give a store such as one of package memory")
	case o.Default == Default && o.Local != nil:
		o.Default = Local
	case o.Default == Default:
		o.Default = Allow
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
			return fmt.Errorf("guard: %s is %v; give %v to %v, or 0 for %v", d.name, *d.value, time.Millisecond, time.Minute, d.preset)
		}
	}
	if o.Slow == 0 {
		o.Slow = o.Deadline
	}
	if o.Slow < 0 || o.Slow > o.Deadline {
		return fmt.Errorf("guard: Slow is %v; give up to the deadline, which is %v, or 0 for that", o.Slow, o.Deadline)
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
			return fmt.Errorf("guard: %s is %d; give 1 to %d, or 0 for %d", n.name, *n.value, n.most, n.preset)
		}
	}
	return nil
}
