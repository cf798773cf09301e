package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// denial: a denial is a decision, not an error, and its RetryAfter says when to come back.
func denial(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := s.full(c)
		d := s.take(l, key, 1)
		s.denied(d, sluice.ReasonLimited, "the unit after the last one")
		if d.Remaining != 0 || d.RetryAfter <= 0 || d.ResetAfter < d.RetryAfter || d.Limit != capacity || d.Delay != 0 {
			s.Errorf("got %+v", d)
		}
		if d.Degraded || d.Overflow {
			s.Errorf("Degraded or Overflow is set: %+v", d)
		}
	})
}

// frozen: while no time passes, exactly the capacity is admitted.
func frozen(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		want := int64(capacity)
		if c.paced {
			want = 1
		}
		admitted := int64(0)
		for range 4 * capacity {
			if s.take(l, key, 1).Allowed {
				admitted++
			}
		}
		if admitted != want {
			s.Errorf("admitted %d units, want %d", admitted, want)
		}
	})
}

// peek: a peek returns what the next decision would, and takes nothing, however often it is
// repeated.
func peek(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		r := source(2)
		for i := range s.suite.random(200) {
			s.clock.Advance(pause(r, 400*time.Millisecond))
			q := sluice.Request{Limit: l, Key: key, Cost: r.Int64N(4), Floor: r.Int64N(3), MaxWait: waits[r.IntN(len(waits))]}
			q = s.complete(q)
			p := q
			p.Peek = true
			before := s.view(l, key)
			seen := s.decide(p)
			again := s.decide(p)
			s.same(again, seen, "request %d, a second peek", i)
			s.unmoved(before, l, key, "request %d, a peek of %d over %d", i, q.Cost, q.Floor)
			got := s.decide(q)
			none := before[0]
			none.Remaining = got.Remaining // a peek has what could be taken, a decision what is left
			seen.Remaining = got.Remaining
			s.foreseen(seen, got, none)
		}
	})
}

// waits are the longest delays that random requests accept.
var waits = []time.Duration{0, 0, sluice.NoWait, 300 * time.Millisecond, time.Hour}

// take: a store that is a driver.Taker decides as its Decide does.
func take(s *subject) {
	taker, ok := s.store.(driver.Taker)
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
