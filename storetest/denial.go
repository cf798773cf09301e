package storetest

import (
	"github.com/sluicehq/sluice"
)

// denial: a denial is a decision and no error, and says when to come back.
func denial(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := s.full(c)
		d := s.take(l, key, 1)
		s.denied(d, sluice.ReasonLimited, "the unit after the last one")
		if d.Remaining != 0 || d.RetryAfter <= 0 || d.ResetAfter < d.RetryAfter || d.Limit != capacity || d.Delay != 0 {
			s.Errorf("got %+v", d)
		}
		if d.Degraded || d.Overflow {
			s.Errorf("a decision of the store itself, of a key's own budget, says otherwise: %+v", d)
		}
	})
}

// frozen: while time stands still, exactly the capacity is admitted.
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
