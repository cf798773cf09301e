package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// take: a store that is a sluice.Taker answers as its Decide does.
func take(s *subject) {
	taker, ok := s.store.(sluice.Taker)
	if !ok {
		return // nothing was promised
	}
	ctx := context.Background()
	twin := s.twin()
	r := source(7)
	for i := range 1000 {
		s.clock.Advance(pause(r, 200*time.Millisecond))
		c := samples[r.IntN(len(samples))]
		l, cost := named(c), r.Int64N(8)
		if c.lease {
			cost = 0
		}
		got, err := taker.Take(ctx, l, key, cost)
		if err != nil {
			s.Fatalf("request %d, %v, cost %d: %v", i, l, cost, err)
		}
		s.same(got, twin.take(l, key, cost), "request %d, %v, cost %d", i, l, cost)
	}
	var problem *sluice.RequestError
	if _, err := taker.Take(ctx, nil, key, 1); !errors.As(err, &problem) {
		s.Errorf("no limit: got %v, want a RequestError", err)
	}
	if _, err := taker.Take(ctx, samples[0].limit(), key, -1); !errors.As(err, &problem) {
		s.Errorf("a negative cost: got %v, want a RequestError", err)
	}
	if _, err := taker.Take(ctx, limit("leases", sluice.Concurrency{Max: 1}), key, 1); !errors.As(err, &problem) {
		s.Errorf("a lease without a member: got %v, want a RequestError", err)
	}
}
