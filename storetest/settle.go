package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// settlement is a row of a table: cost units are charged to a fresh key, and later settled at
// another cost.
type settlement struct {
	name         string
	cost, actual int64
	after        time.Duration
	remaining    int64 // after the settlement
	// retry is how long a unit must wait then. zeroRetry is the same for a cost of zero, which
	// waits only for debt.
	retry, zeroRetry time.Duration
}

// settlements are the expected results of each algorithm with five units, five per second.
var settlements = map[string][]settlement{
	"token_bucket": {
		{name: "surplus", cost: 4, actual: 1, remaining: 4},
		{name: "rest", cost: 1, actual: 4, remaining: 1},
		{name: "same", cost: 3, actual: 3, remaining: 2},
		{name: "all_of_it", cost: 5, actual: 0, remaining: 5},
		{name: "no_more_than_full", cost: 5, actual: 1, after: 600 * ms, remaining: 5},
		{name: "debt", cost: 5, actual: 7, retry: 600 * ms, zeroRetry: 400 * ms},
		{name: "debt_is_capped", cost: 5, actual: 1 << 40, retry: 1200 * ms, zeroRetry: 1000 * ms},
		{name: "from_nothing", cost: 0, actual: 2, remaining: 3},
		{name: "later", cost: 2, actual: 4, after: 10 * time.Second, remaining: 3},
	},
	"leaky_bucket": {
		{name: "surplus", cost: 4, actual: 1, remaining: 4},
		{name: "rest", cost: 1, actual: 4, remaining: 1},
		{name: "all_of_it", cost: 5, actual: 0, remaining: 5},
		{name: "rest_is_capped", cost: 3, actual: 1 << 40, retry: 200 * ms},
		{name: "after_it_has_left", cost: 1, actual: 5, after: 200 * ms, remaining: 5},
	},
	"fixed_window": {
		{name: "surplus", cost: 4, actual: 1, after: 900 * ms, remaining: 4},
		{name: "rest", cost: 1, actual: 4, after: 900 * ms, remaining: 1},
		{name: "all_of_it", cost: 5, actual: 0, remaining: 5},
		{name: "debt", cost: 5, actual: 7, after: 100 * ms, retry: 900 * ms, zeroRetry: 900 * ms},
		{name: "surplus_in_the_next_window", cost: 5, actual: 0, after: time.Second, remaining: 5},
		{name: "rest_in_the_next_window", cost: 1, actual: 9, after: time.Second, remaining: 5},
	},
	"fixed_window_opened": {
		{name: "surplus", cost: 4, actual: 1, after: 900 * ms, remaining: 4},
		{name: "rest", cost: 1, actual: 4, after: 900 * ms, remaining: 1},
		{name: "rest_in_the_next_window", cost: 1, actual: 9, after: time.Second, remaining: 5},
	},
	"sliding_window": {
		{name: "surplus", cost: 4, actual: 1, after: 900 * ms, remaining: 4},
		{name: "rest", cost: 1, actual: 4, after: 900 * ms, remaining: 1},
		{name: "all_of_it", cost: 5, actual: 0, remaining: 5},
		{name: "debt", cost: 5, actual: 7, after: 100 * ms, retry: 1000 * ms, zeroRetry: 1000 * ms},
		{name: "surplus_in_a_cell_that_has_left", cost: 5, actual: 0, after: 1100 * ms, remaining: 5},
		{name: "rest_in_a_cell_that_has_left", cost: 1, actual: 9, after: 1100 * ms, remaining: 5},
	},
	"sliding_counter": {
		{name: "surplus", cost: 4, actual: 1, after: 900 * ms, remaining: 4},
		{name: "rest", cost: 1, actual: 4, after: 900 * ms, remaining: 1},
		{name: "surplus_in_the_window_before", cost: 4, actual: 2, after: 1500 * ms, remaining: 4},
		{name: "rest_in_the_window_before", cost: 2, actual: 4, after: 1500 * ms, remaining: 3},
		{name: "surplus_in_a_window_that_has_left", cost: 5, actual: 0, after: 2 * time.Second, remaining: 5},
		{name: "rest_in_a_window_that_has_left", cost: 1, actual: 9, after: 2 * time.Second, remaining: 5},
	},
	"sliding_log": {
		{name: "surplus", cost: 4, actual: 1, after: 900 * ms, remaining: 4},
		{name: "rest", cost: 1, actual: 4, after: 900 * ms, remaining: 1},
		{name: "its_members_are_removed", cost: 5, actual: 0, after: 900 * ms, remaining: 5},
		{name: "debt", cost: 5, actual: 7, after: 100 * ms, retry: 900 * ms, zeroRetry: 900 * ms},
		{name: "surplus_when_it_has_left", cost: 5, actual: 0, after: time.Second, remaining: 5},
		{name: "rest_when_it_has_left", cost: 1, actual: 9, after: time.Second, remaining: 5},
	},
	"token_bucket_warm_up": {
		// Five units of a cold limiter cost 1,500 ms; four cost 800 ms.
		{name: "surplus", cost: 5, actual: 1, remaining: 0, retry: 700 * ms, zeroRetry: 700 * ms},
		{name: "all_of_it", cost: 1, actual: 0, after: 400 * ms, remaining: 5},
	},
}

// settle: a settlement replaces the charged cost by the actual cost, by the rules of each
// algorithm.
func settle(s *subject) {
	for _, c := range samples {
		for _, row := range settlements[c.name] {
			s.Run(c.name+"/"+row.name, func(t *testing.T) {
				s := s.suite.subject(t)
				l := c.limit()
				charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: row.cost})
				s.clock.Advance(row.after)
				s.settle(charge, row.actual)
				d := s.peek(l, key, 1)
				if d.Remaining != row.remaining || d.RetryAfter != row.retry || d.Allowed != (row.retry == 0) {
					s.Errorf("a unit, once settled: %+v", d)
				}
				d = s.peek(l, key, 0)
				if d.RetryAfter != row.zeroRetry || d.Allowed != (row.zeroRetry == 0) {
					s.Errorf("no unit, once settled: %+v", d)
				}
			})
		}
	}
}

// settleLate: a settlement never changes the charges of others, however late it comes.
func settleLate(s *subject) {
	s.each(only(func(c sample) bool { return !c.lease }), func(s *subject, c sample) {
		if _, ok := c.algorithm.(sluice.TokenBucket); ok {
			return // its actual cost is owed at any time
		}
		l := c.limit()
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 3})
		s.clock.Advance(5 * time.Second)
		s.take(l, key, 2)
		before := s.view(l, key)
		s.settle(charge, 0)
		s.unmoved(before, l, key, "a surplus five seconds late")
		s.settle(charge, 5)
		s.unmoved(before, l, key, "a rest five seconds late")
	})
	s.Run("leaky_bucket_with_one_behind", func(t *testing.T) {
		s := s.suite.subject(t)
		l := limit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 9})
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 3})
		s.take(l, key, 1)
		before := s.view(l, key)
		s.settle(charge, 1)
		s.settle(charge, 5)
		s.unmoved(before, l, key, "settling a turn with another one behind it")
	})
}

// unsupported: leases are not settled, and only leases are released.
func unsupported(s *subject) {
	ctx := context.Background()
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 2})
		before := s.view(l, key)
		var err error
		if c.lease {
			err = s.store.Settle(ctx, charge, 1)
		} else {
			err = s.store.Release(ctx, charge, time.Millisecond)
		}
		if !errors.Is(err, sluice.ErrUnsupported) {
			s.Errorf("got %v, want ErrUnsupported", err)
		}
		s.unmoved(before, l, key, "what is not supported")
	})
}

// endOnce: a reservation ends once; the second end is an error and gives back nothing.
func endOnce(s *subject) {
	ctx := context.Background()
	s.each(only(func(c sample) bool { return !c.lease }), func(s *subject, c sample) {
		lim := sluice.NewLimiter(s.store, c.limit())
		for _, first := range []func(*sluice.Reservation) error{
			func(r *sluice.Reservation) error { return r.Cancel(ctx) },
			func(r *sluice.Reservation) error { return r.Settle(ctx, 1) },
		} {
			r, err := lim.ReserveN(ctx, key, 2, time.Hour)
			if err != nil || !r.OK() {
				s.Fatalf("reserving: %v, %+v", err, r)
			}
			if err := first(r); err != nil {
				s.Fatalf("the first end: %v", err)
			}
			before := s.view(lim.Limit(), key)
			if err := r.Cancel(ctx); !errors.Is(err, sluice.ErrEnded) {
				s.Errorf("canceling after the end: %v", err)
			}
			if err := r.Settle(ctx, 0); !errors.Is(err, sluice.ErrEnded) {
				s.Errorf("settling after the end: %v", err)
			}
			s.unmoved(before, lim.Limit(), key, "a second end")
			s.reset(lim.Limit(), key)
		}
	})
}
