package storetest

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// backSlightly: after the clock goes back by less than a period, requests are decided as of the
// latest time. Nothing is refilled twice, and the wait includes the difference.
func backSlightly(s *subject) {
	s.each(only(func(c sample) bool { return !c.lease && !c.countsDenied }), func(s *subject, c sample) {
		s.clock.Advance(700 * time.Millisecond)
		l := s.full(c)
		d := s.take(l, key, 1)
		s.clock.Advance(-600 * time.Millisecond)
		e := s.take(l, key, 1)
		s.denied(e, sluice.ReasonLimited, "a unit of an empty key, 600ms earlier")
		if e.RetryAfter != d.RetryAfter+600*time.Millisecond {
			s.Errorf("retry after %v, and 600ms earlier after %v", d.RetryAfter, e.RetryAfter)
		}
		s.clock.Advance(600 * time.Millisecond)
		s.same(s.take(l, key, 1), d, "a unit, when the time is right again")
		s.clock.Advance(d.RetryAfter)
		s.allowed(s.take(l, key, 1), "a unit, after RetryAfter")
	})
}

// backFar: a clock that is set back by more than a period gives nobody extra units, and locks
// nobody out for more than a period.
func backFar(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		s.clock.Advance(24 * time.Hour)
		l := s.full(c)
		s.clock.Advance(-12 * time.Hour)
		seen := s.peek(l, key, 1)
		d := s.take(l, key, 1)
		s.denied(d, sluice.ReasonLimited, "a unit of an empty key, with the clock set back")
		s.same(seen, d, "the peek and the decision, with the clock set back")
		// Two units of one second each, or the units of a window and of the window before it.
		if d.RetryAfter > 3*time.Second || d.ResetAfter > 4*time.Second {
			s.Errorf("locked out by a clock that was set back: %+v", d)
		}
		s.clock.Advance(d.RetryAfter)
		s.allowed(s.take(l, key, 1), "a unit, after RetryAfter")
		s.clock.Advance(5 * time.Second)
		s.remaining(l, key, capacity, "some seconds later")
		// Forward again: units charged meanwhile count for their usual time.
		s.allowed(s.take(l, key, capacity), "all of it")
		s.clock.Advance(12 * time.Hour)
		s.remaining(l, key, capacity, "half a day later")
	})
}

// backLeases: a lease ends at most a TTL after the clock was set back.
func backLeases(s *subject) {
	l := limit("leases", sluice.Concurrency{Max: 2, TTL: time.Second})
	first := s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
	s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
	s.clock.Advance(-time.Hour)
	s.denied(s.take(l, key, 1), sluice.ReasonLimited, "a lease, with the clock set back")
	if err := s.release(first, 0); err != nil {
		s.Errorf("releasing with the clock set back: %v", err)
	}
	s.allowed(s.take(l, key, 1), "what was released")
	s.denied(s.take(l, key, 1), sluice.ReasonLimited, "what is still held")
	s.clock.Advance(2 * time.Second)
	s.remaining(l, key, 2, "two seconds later")
}

// backBans: a ban ends at most its length after the clock was set back.
func backBans(s *subject) {
	l := limit("bans", sluice.FixedWindow{Rate: sluice.PerSecond(1)})
	r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: &sluice.Ban{After: 1, For: 10 * time.Second}}
	s.decide(r)
	s.decide(r)
	s.denied(s.decide(r), sluice.ReasonBanned, "a banned key")
	s.clock.Advance(-time.Hour)
	s.take(l, key, 1) // ignores the ban, and lets the window follow the clock
	d := s.decide(r)
	s.denied(d, sluice.ReasonBanned, "a banned key, with the clock set back")
	if d.RetryAfter > 20*time.Second {
		s.Errorf("banned for longer than the ban and the period before it: %+v", d)
	}
	s.clock.Advance(d.RetryAfter)
	s.allowed(s.decide(r), "when the ban has ended")
}

// backRandom: however the clock jumps, the admitted units stay within the bound for the time
// passed forward, plus twice the capacity. A client that waits for RetryAfter is allowed.
func backRandom(s *subject) {
	for _, c := range only(func(c sample) bool { return !c.lease && !c.countsDenied }) {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := c.limit()
			r := source(6)
			s.clock.Advance(24 * time.Hour)
			forward, admitted := time.Duration(0), int64(0)
			latest := s.clock.Now()
			for i := range s.suite.random(500) {
				jump := pause(r, 300*time.Millisecond)
				switch r.IntN(6) {
				case 0:
					jump = -jump
				case 1:
					jump = -time.Duration(r.Int64N(int64(time.Minute)))
				}
				before := s.clock.Now()
				s.clock.Advance(jump)
				// Each step of the clock forward counts as passed time, wherever it began.
				if now := s.clock.Now(); now > before {
					forward += time.Duration(now-before) * time.Microsecond
				}
				latest = max(latest, s.clock.Now())
				cost := 1 + r.Int64N(2)
				seen := s.peek(l, key, cost)
				d := s.take(l, key, cost)
				if d.Allowed != seen.Allowed || d.RetryAfter != seen.RetryAfter || d.Delay != seen.Delay {
					s.Fatalf("step %d: peek %+v, decision %+v", i, seen, d)
				}
				if d.Allowed {
					admitted += cost
				} else {
					now := s.clock.Now()
					s.clock.Advance(d.RetryAfter)
					if e := s.peek(l, key, cost); !e.Allowed {
						s.Fatalf("step %d: %+v, and then still %+v", i, d, e)
					}
					s.clock.Set(now)
				}
				if d.RetryAfter > 4*time.Second {
					s.Fatalf("step %d: locked out: %+v", i, d)
				}
			}
			if most := c.bound(forward) + 2*capacity; admitted > most {
				s.Errorf("%d units admitted while %v passed; the bound is %d", admitted, forward, most)
			}
		})
	}
}
