package storetest

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// cancel: a cancellation at the moment of the charge leaves no trace.
func cancel(s *subject) {
	s.each(only(notPaced), func(s *subject, c sample) {
		l := c.limit()
		s.take(l, key, 1)
		if !c.lease {
			s.clock.Advance(123_456 * us)
		}
		before := s.peek(l, key, 0)
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 3})
		s.cancel(charge)
		s.same(s.peek(l, key, 0), before, "after a charge and its cancellation")
	})
	s.each(only(func(c sample) bool { return c.paced }), func(s *subject, c sample) {
		l := c.limit()
		s.cancel(s.charge(sluice.Request{Limit: l, Key: key, Cost: 2}))
		if d := s.peek(l, key, 0); d.RetryAfter > 2*time.Second {
			s.Errorf("after a charge and its cancellation: %+v", d)
		}
		s.clock.Advance(2 * time.Second)
		s.remaining(l, key, capacity, "after a charge, its cancellation, and two seconds")
	})
}

// cancelBound: over every interval, the units that act and are not cancelled stay within a token
// bucket's bound. Other reservations and cancellations do not change that.
func cancelBound(s *subject) {
	type held struct {
		charge sluice.Charge
		acts   int64
	}
	for seed := range uint64(max(4, s.suite.random(20))) {
		r := source(seed)
		l := limit("", sluice.TokenBucket{Rate: sluice.PerSecond(1 + r.Int64N(9)), Burst: 1 + r.Int64N(6)})
		bucket, _ := l.Algorithm().(sluice.TokenBucket)
		var waiting []held
		var acted []event
		for range 150 {
			s.clock.Advance(pause(r, 300*time.Millisecond))
			now := s.clock.Now()
			kept := waiting[:0]
			for _, h := range waiting {
				switch {
				case h.acts <= now:
					acted = append(acted, event{h.acts, h.charge.Cost})
				case r.IntN(4) == 0:
					s.cancel(h.charge)
				default:
					kept = append(kept, h)
				}
			}
			waiting = kept
			q := sluice.Request{Limit: l, Key: key, Cost: 1 + r.Int64N(bucket.Burst), MaxWait: 3 * time.Second}
			if d := s.decide(q); d.Allowed {
				h := held{q.Charge(&d), now + int64(d.Delay/us)}
				waiting = append(waiting, h)
			}
		}
		for _, h := range waiting {
			acted = append(acted, event{h.acts, h.charge.Cost})
		}
		for _, from := range acted {
			for _, to := range acted {
				within := to.at - from.at
				if within < 0 {
					continue
				}
				sum := int64(0)
				for _, e := range acted {
					if e.at >= from.at && e.at <= to.at {
						sum += e.units
					}
				}
				// All delays are rounded up to whole microseconds, also the delay of the first
				// unit.
				if most := bucket.Burst + bucket.Rate.Count()*(within+1)/1e6; sum > most {
					s.Fatalf("seed %d, %v: %d units act within %dµs; the bound is %d", seed, l, sum, within, most)
				}
			}
		}
	}
}

// cancelLate: after the moment at which a charge acts, its cancellation gives nothing back.
func cancelLate(s *subject) {
	s.each(only(func(c sample) bool { return !c.lease }), func(s *subject, c sample) {
		l := c.limit()
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
		s.clock.Advance(10 * time.Millisecond)
		before := s.view(l, key)
		s.cancelActed(charge)
		s.unmoved(before, l, key, "a cancellation after the moment")
		s.clock.Advance(time.Minute)
		s.cancelActed(charge)
		s.remaining(l, key, capacity, "a cancellation a minute late")

		charge = s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
		s.clock.Advance(us)
		s.cancelActed(charge)
		s.settle(charge, 0) // it has not ended
		if !c.paced {
			s.remaining(l, key, capacity, "settled at 0 after a late cancellation")
		}
	})
	s.Run("queue", func(t *testing.T) {
		s := s.suite.subject(t)
		l := limit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 9})
		first := s.charge(sluice.Request{Limit: l, Key: key, Cost: 3})
		last := s.charge(sluice.Request{Limit: l, Key: key, Cost: 2})
		s.clock.Advance(50 * time.Millisecond)
		before := s.view(l, key)
		s.cancel(first)
		s.unmoved(before, l, key, "cancelling a turn with another one behind it")
		s.cancel(last)
		if d := s.take(l, key, 1); !d.Allowed || d.Delay != 250*time.Millisecond {
			s.Errorf("the turn after three, of which half a one has left: %+v", d)
		}
	})
}

// cancelFloor: the units that a cancellation leaves to later reservations depend on the floor of
// the charge.
func cancelFloor(s *subject) {
	l := limit("floor", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 4})
	narrow := limit("floor", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 1})
	r := sluice.Request{Limit: l, Key: key, Cost: 2, Floor: 2, MaxWait: time.Hour}
	s.charge(r)
	second := s.charge(r)
	s.charge(r)
	s.cancel(second) // the third one acts 200 ms later, on all units that it took
	if d := s.decide(sluice.Request{Limit: l, Key: key, Cost: 1, Floor: 2, MaxWait: time.Hour}); d.Delay != 500*time.Millisecond {
		s.Errorf("after canceling the second of three: %+v", d)
	}
	// In a bucket smaller than the floor, the floor is the whole bucket: of seven units that are
	// used, none is given back.
	s.take(narrow, key, 1)
	s.cancel(second)
	if d := s.peek(narrow, key, 1); d.RetryAfter != 700*time.Millisecond {
		s.Errorf("after a cancellation under other numbers: %+v", d)
	}
}
