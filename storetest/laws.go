package storetest

import (
	"time"

	"github.com/sluicehq/sluice"
)

// laws checks every algorithm, on random schedules, against the promises that hold for all
// algorithms.
func laws(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		r := source(1)
		var admitted []event
		for i := range s.suite.random(400) {
			s.clock.Advance(pause(r, 700*time.Millisecond))
			cost := 1 + r.Int64N(3)
			before := s.view(l, key)
			s.honest(c, l)
			seen := s.peek(l, key, cost)
			s.unmoved(before, l, key, "request %d, a peek", i)
			got := s.take(l, key, cost)
			s.foreseen(seen, got, before[0])
			switch {
			case got.Allowed:
				admitted = append(admitted, event{s.clock.Now(), cost})
			case c.countsDenied:
				// The attempt counts: a peek now has what the decision had.
			default:
				s.unmoved(before, l, key, "request %d, a denial", i)
			}
			s.returns(c, l, cost, got)
		}
		s.bounded(c, admitted)
	})
}

// event is a number of units admitted at one time.
type event struct{ at, units int64 }

// bounded checks the admitted units against the algorithm's bound, over every interval.
func (s *subject) bounded(c sample, admitted []event) {
	s.Helper()
	for i := range admitted {
		sum := int64(0)
		for _, e := range admitted[i:] {
			sum += e.units
			within := time.Duration(e.at-admitted[i].at) * time.Microsecond
			if most := c.bound(within); sum > most {
				s.Fatalf("%d units within %v; the bound is %d", sum, within, most)
			}
		}
	}
}

// honest checks Remaining: exactly that many units can be taken now.
func (s *subject) honest(c sample, l *sluice.Limit) {
	s.Helper()
	d := s.peek(l, key, 0)
	if d.Remaining < 0 || d.Remaining > l.Capacity() {
		s.Fatalf("%d of %d remain", d.Remaining, l.Capacity())
	}
	if d.Remaining > 0 {
		if e := s.peek(l, key, d.Remaining); !e.Allowed && e.Reason != sluice.ReasonTooSoon {
			s.Fatalf("%d remain and cannot be taken: %+v", d.Remaining, e)
		}
	}
	if e := s.peek(l, key, d.Remaining+1); e.Allowed && e.Delay == 0 {
		s.Fatalf("%d remain and one more can be taken: %+v", d.Remaining, e)
	}
	if c.lease && d.Remaining < l.Capacity() && d.ResetAfter == 0 {
		s.Fatalf("leases are held and ResetAfter is zero: %+v", d)
	}
}

// returns checks RetryAfter and ResetAfter. The same request passes after RetryAfter, and not a
// microsecond earlier; the key equals a fresh one after ResetAfter, and not a microsecond
// earlier. Then it restores the clock.
func (s *subject) returns(c sample, l *sluice.Limit, cost int64, d sluice.Decision) {
	s.Helper()
	now := s.clock.Now()
	defer s.clock.Set(now)
	at := func(after time.Duration) { s.clock.Set(now + int64(after/us)) }
	if !d.Allowed {
		if d.RetryAfter <= 0 {
			s.Fatalf("a denial that says nothing of when to come back: %+v", d)
		}
		at(d.RetryAfter)
		if e := s.peek(l, key, cost); !e.Allowed {
			s.Fatalf("denied %v after a denial, which said so long: %+v then %+v", d.RetryAfter, d, e)
		}
		at(d.RetryAfter - us)
		if e := s.peek(l, key, cost); e.Allowed && !c.lease {
			s.Fatalf("allowed a microsecond before RetryAfter: %+v then %+v", d, e)
		}
	}
	at(d.ResetAfter)
	if e := s.peek(l, key, 0); e.Remaining != l.Capacity() || e.ResetAfter != 0 {
		s.Fatalf("not reset after %v, the ResetAfter: %+v then %+v", d.ResetAfter, d, e)
	}
	at(d.ResetAfter - us)
	if e := s.peek(l, key, 0); d.ResetAfter > 0 && e.ResetAfter != us {
		s.Fatalf("reset a microsecond before ResetAfter: %+v then %+v", d, e)
	}
}
