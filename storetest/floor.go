package storetest

import (
	"math"

	"github.com/sluicehq/sluice"
)

// floor: a request leaves its floor to others, and Remaining is what is left above the floor.
func floor(s *subject) {
	s.each(only(notPaced), func(s *subject, c sample) {
		l := c.limit()
		decide := func(cost, floor int64, peek bool) sluice.Decision {
			return s.decide(sluice.Request{Limit: l, Key: key, Cost: cost, Floor: floor, Peek: peek})
		}
		for floor := range int64(capacity + 1) {
			for cost := range int64(2) {
				if d := decide(cost, floor, true); d.Remaining != capacity-floor {
					s.Fatalf("peek of cost %d, floor %d, fresh: %d remain, want %d", cost, floor, d.Remaining, capacity-floor)
				}
			}
		}
		d := decide(2, 2, false)
		s.allowed(d, "2 units over a floor of 2")
		if d.Remaining != 1 {
			s.Errorf("%d remain over the floor, want 1", d.Remaining)
		}
		before := s.view(l, key)
		if !c.countsDenied {
			s.denied(decide(2, 2, false), sluice.ReasonLimited, "2 units over a floor of 2, of which 1 is left")
			s.unmoved(before, l, key, "a denial")
		}
		s.allowed(decide(1, 2, false), "the unit over the floor")
		s.allowed(decide(0, 2, false), "no unit, at the floor")
		s.allowed(decide(2, 0, false), "the floor itself, without a floor")
		s.remaining(l, key, 0, "after all of them")
	})
	s.each(only(func(c sample) bool { return c.paced }), func(s *subject, c sample) {
		l := c.limit()
		d := s.decide(sluice.Request{Limit: l, Key: key, Cost: 1, Floor: 2, Peek: true})
		if !d.Allowed || d.Remaining != capacity-2 {
			s.Errorf("peek over a floor of 2, fresh: %+v", d)
		}
		s.denied(s.decide(sluice.Request{Limit: l, Key: key, Cost: 4, Floor: 2}), sluice.ReasonNever, "4 units over a floor of 2")
		s.allowed(s.decide(sluice.Request{Limit: l, Key: key, Cost: 3, Floor: 2}), "3 units over a floor of 2")
	})
}

// floorBeyondCapacity: a floor that leaves nothing denies any cost with the reason never. Such a
// request takes nothing, and no sum with its floor overflows.
func floorBeyondCapacity(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		for _, used := range []bool{false, true} {
			if used {
				s.take(l, key, 1)
			}
			before := s.view(l, key)
			for _, floor := range []int64{capacity, capacity + 1, math.MaxInt64} {
				r := sluice.Request{Limit: l, Key: key, Cost: 1, Floor: floor}
				d := s.decide(r)
				s.denied(d, sluice.ReasonNever, "a unit over a floor of %d", floor)
				if d.Remaining != 0 || d.RetryAfter != 0 {
					s.Errorf("a unit over a floor of %d: %+v", floor, d)
				}
				if r.Cost = 0; !used || !c.paced {
					s.allowed(s.decide(r), "no unit, with a floor of %d", floor)
				}
			}
			s.unmoved(before, l, key, "requests over such floors")
		}
	})
}
