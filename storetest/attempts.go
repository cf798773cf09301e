package storetest

import (
	"math"
	"time"

	"github.com/sluicehq/sluice"
)

// countDenied: with CountDenied a denied attempt counts like an allowed one. A client that keeps
// trying stays denied, and a client that waits is allowed.
func countDenied(s *subject) {
	s.each(only(countingDenied), func(s *subject, c sample) {
		l := s.full(c)
		_, fixed := c.algorithm.(sluice.FixedWindow)
		// Five seconds with an attempt every 100 ms: all are denied.
		var last sluice.Decision
		for i := range 50 {
			s.clock.Advance(100 * time.Millisecond)
			seen := s.peek(l, key, 1)
			last = s.take(l, key, 1)
			if fixed && last.Allowed {
				return // a window has begun, with nothing counted
			}
			s.denied(last, sluice.ReasonLimited, "attempt %d", i)
			s.same(seen, last, "the peek and attempt %d", i)
			s.returns(c, l, 1, last)
		}
		if fixed {
			s.Fatalf("no window has begun in five seconds: %+v", last)
		}
		s.clock.Advance(last.RetryAfter)
		s.allowed(s.take(l, key, 1), "after RetryAfter")
	})
	// A denied attempt uses up what is left.
	s.each(only(countingDenied), func(s *subject, c sample) {
		l := c.limit()
		s.allowed(s.take(l, key, 3), "three units")
		s.denied(s.take(l, key, 3), sluice.ReasonLimited, "three of two that are left")
		s.denied(s.take(l, key, 1), sluice.ReasonLimited, "one of none")
	})
	// Without CountDenied, a denial leaves no trace.
	plain := limit("plain", sluice.SlidingLog{Rate: sluice.PerSecond(2)})
	s.take(plain, key, 2)
	for range 10 {
		s.clock.Advance(99 * time.Millisecond)
		s.take(plain, key, 1)
	}
	s.clock.Advance(10 * time.Millisecond)
	s.remaining(plain, key, 2, "a second after the charge, denials in between")
}

// countDeniedNot: a denial does not count as an attempt for a peek, for a cost that never passes,
// for a banned key, or for a cost of zero. A cost of zero passes while no more than the capacity counts.
func countDeniedNot(s *subject) {
	s.each(only(countingDenied), func(s *subject, c sample) {
		l := s.full(c)
		s.allowed(s.take(l, key, 0), "no unit, with all units used")
		banned := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: &sluice.Ban{After: 1, For: 20 * time.Second}}
		s.denied(s.decide(banned), sluice.ReasonLimited, "the denial that bans")
		before := s.view(l, key)
		for range 5 {
			s.denied(s.peek(l, key, 1), sluice.ReasonLimited, "a peek")
			s.denied(s.take(l, key, capacity+1), sluice.ReasonNever, "more units than the limit has")
			s.denied(s.take(l, key, math.MaxInt64), sluice.ReasonNever, "more units than any limit has")
			s.denied(s.decide(sluice.Request{Limit: l, Key: key, Cost: 1, Floor: capacity}), sluice.ReasonNever, "a unit above a floor of all")
			s.denied(s.decide(banned), sluice.ReasonBanned, "an attempt while banned")
			s.denied(s.take(l, key, 0), sluice.ReasonLimited, "no unit, with more attempted than there is")
		}
		s.unmoved(before, l, key, "what is not an attempt")
	})
}

// countDeniedBatch: in a denied batch, only the requests that would be denied by themselves count
// as attempts.
func countDeniedBatch(s *subject) {
	s.each(only(countingDenied), func(s *subject, c sample) {
		l := c.limit()
		spent := limit("spent", sluice.TokenBucket{Rate: sluice.PerHour(1)})
		s.take(spent, key, 1)
		r, none := sluice.Request{Limit: l, Key: key, Cost: 2}, sluice.Request{Limit: spent, Key: key, Cost: 1}
		before := s.view(l, key)
		s.batch(r, none)
		s.unmoved(before, l, key, "a batch that another limit has denied")
		s.batch(r, r, r)
		s.unmoved(before, l, key, "three requests that would pass one by one")
		s.take(l, key, 3)
		more := r
		more.Cost = 3
		other := limit("other", sluice.FixedWindow{Rate: sluice.PerHour(9)})
		s.batch(sluice.Request{Limit: other, Key: key, Cost: 1}, more)
		s.remaining(l, key, 0, "three units of two that are left, in a batch")
		s.remaining(other, key, 9, "another limit of that batch")
		// Each of two counts once.
		s.reset(l, key)
		s.take(l, key, 4)
		s.batch(r, r)
		larger := limit(l.Name(), altered(c.algorithm, 20, true))
		s.remaining(larger, key, 12, "four units and two attempts at two")
	})
}

// altered returns an algorithm with another count in the same time, with denied attempts counted
// or not.
func altered(a sluice.Algorithm, count int64, denied bool) sluice.Algorithm {
	switch a := a.(type) {
	case sluice.FixedWindow:
		a.Rate, a.CountDenied = sluice.Per(count, a.Rate.Period()), denied
		return a
	case sluice.SlidingWindow:
		a.Rate, a.CountDenied = sluice.Per(count, a.Rate.Period()), denied
		return a
	case sluice.SlidingCounter:
		a.Rate, a.CountDenied = sluice.Per(count, a.Rate.Period()), denied
		return a
	case sluice.SlidingLog:
		a.Rate, a.CountDenied = sluice.Per(count, a.Rate.Period()), denied
		return a
	}
	return a
}

// countDeniedCharges: a cancellation or a settlement gives back charges, but no attempts. Counted
// attempts stay counted when the limit's numbers change, even if the new numbers count no
// attempts: then they are a debt.
func countDeniedCharges(s *subject) {
	s.each(only(countingDenied), func(s *subject, c sample) {
		l := c.limit()
		r := sluice.Request{Limit: l, Key: key, Cost: 3}
		first := s.charge(r)
		s.denied(s.take(l, key, 4), sluice.ReasonLimited, "an attempt at four")
		s.cancel(first)
		s.remaining(l, key, 1, "an attempt at four, and a charge that was cancelled")
		s.reset(l, key)
		first = s.charge(r)
		s.denied(s.take(l, key, 3), sluice.ReasonLimited, "an attempt at three")
		s.settle(first, 1)
		s.remaining(l, key, 1, "an attempt at three, and a charge that was settled at one")

		s.reset(l, key)
		s.take(l, key, 5)
		s.denied(s.take(l, key, 4), sluice.ReasonLimited, "an attempt at four")
		larger := limit(l.Name(), altered(c.algorithm, 20, true))
		s.remaining(larger, key, 11, "five units and an attempt at four, of twenty")
		plain := limit(l.Name(), altered(c.algorithm, capacity, false))
		s.denied(s.take(plain, key, 0), sluice.ReasonLimited, "no unit, with a debt of four")
	})
}
