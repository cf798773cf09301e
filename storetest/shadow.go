package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// shadow: a shadow request by itself is decided and charged like any other.
func shadow(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		r := sluice.Request{Limit: l, Key: key, Cost: capacity, Shadow: true}
		s.allowed(s.decide(r), "a shadow of the whole capacity")
		r.Cost = 1
		s.denied(s.decide(r), sluice.ReasonLimited, "a shadow with nothing left")
		s.denied(s.batch(r)[0], sluice.ReasonLimited, "a shadow as the only request of a batch")
	})
}

// shadowBatch: in a batch a shadow never causes a denial. It is charged on its own, whether the
// other requests pass or not.
func shadowBatch(s *subject) {
	enforced := limit("enforced", sluice.FixedWindow{Rate: sluice.PerHour(3)})
	for _, c := range only(notPaced) {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			tried := c.limit()
			a := sluice.Request{Limit: enforced, Key: key, Cost: 1}
			b := sluice.Request{Limit: tried, Key: key, Cost: 2, Shadow: true}
			for i := range 2 {
				if out := s.batch(b, a); !out[0].Allowed || !out[1].Allowed {
					s.Fatalf("batch %d: %+v", i, out)
				}
			}
			s.remaining(tried, key, 1, "two shadows of two")
			out := s.batch(b, a)
			if out[0].Allowed || !out[1].Allowed {
				s.Fatalf("a batch whose shadow is denied: %+v", out)
			}
			s.remaining(enforced, key, 0, "three batches")
			if c.countsDenied {
				return
			}
			s.remaining(tried, key, 1, "a shadow that was denied")
			b.Cost = 1
			out = s.batch(a, b)
			if out[0].Allowed || !out[1].Allowed {
				s.Fatalf("a batch that is denied, with a shadow that is not: %+v", out)
			}
			s.remaining(tried, key, 0, "the shadow of a batch that was denied")
		})
	}
	s.Run("same_limit", func(t *testing.T) {
		s := s.suite.subject(t)
		l := limit("both", sluice.FixedWindow{Rate: sluice.PerHour(5)})
		r := sluice.Request{Limit: l, Key: key, Cost: 3}
		sh := r
		sh.Shadow = true
		// Enforced requests come first, wherever they are in the batch; the shadow takes from the
		// rest.
		if out := s.batch(sh, r); out[0].Allowed || !out[1].Allowed || out[1].Remaining != 2 {
			s.Errorf("a shadow of the limit itself: %+v", out)
		}
		s.remaining(l, key, 2, "after both")
		// A shadow that peeks is neither charged nor a cause of denial.
		sh.Peek = true
		if out := s.batch(sh, sluice.Request{Limit: l, Key: key, Cost: 2}); out[0].Allowed || !out[1].Allowed {
			s.Errorf("a shadow that peeks: %+v", out)
		}
		s.remaining(l, key, 0, "after all of them")
	})
}

// shadowsOnly: shadows that are a batch by themselves are decided like single requests, in their order.
func shadowsOnly(s *subject) {
	s.each(samples, func(s *subject, c sample) { s.walkShadows(c) })
	s.Run("all", func(t *testing.T) { s.suite.subject(t).walkShadows(samples...) })
}

// walkShadows decides random requests as batches of shadows, and one by one under other names.
func (s *subject) walkShadows(samples ...sample) {
	s.Helper()
	rnd := source(1)
	batched, single := make([]*sluice.Limit, len(samples)), make([]*sluice.Limit, len(samples))
	for i, c := range samples {
		batched[i], single[i] = limit("batched "+c.name, c.algorithm), limit("single "+c.name, c.algorithm)
	}
	for range 30 {
		if rnd.IntN(4) == 0 {
			s.clock.Advance(pause(rnd, 500*time.Millisecond))
		}
		var shadows, singles []sluice.Request
		plain := rnd.IntN(2) == 0 // units of distinct keys, and nothing else
		for n := range 1 + rnd.IntN(8) {
			i := rnd.IntN(len(samples))
			r := sluice.Request{Limit: single[i], Key: sluice.StringKey(strconv.Itoa(n)), Cost: 1 + rnd.Int64N(2)}
			if !plain {
				r.Key, r.Cost, r.Peek = sluice.StringKey(strconv.Itoa(rnd.IntN(4))), rnd.Int64N(4), rnd.IntN(5) == 0
			}
			if samples[i].lease && !r.Peek {
				r.Member = 1<<34 + s.member.Add(1)
			}
			singles = append(singles, r)
			r.Limit, r.Shadow = batched[i], true
			shadows = append(shadows, r)
		}
		got := s.batch(shadows...)
		for i := range singles {
			s.same(got[i], s.decide(singles[i]), "shadow %d of %d, %d units of %v, and by itself", i, len(shadows), singles[i].Cost, singles[i].Limit)
		}
	}
}
