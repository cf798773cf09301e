package storetest

import (
	"time"

	"github.com/sluicehq/sluice"
)

// peek: a peek answers as the decision that follows, and takes nothing, however
// often it is asked.
func peek(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		r := source(2)
		for i := range 200 {
			s.clock.Advance(pause(r, 400*time.Millisecond))
			q := sluice.Request{Limit: l, Key: key, Cost: r.Int64N(4), Floor: r.Int64N(3), MaxWait: waits[r.IntN(len(waits))]}
			q = s.complete(q)
			p := q
			p.Peek = true
			before := s.view(l, key)
			seen := s.ask(p)
			again := s.ask(p)
			s.same(again, seen, "request %d, a second peek", i)
			s.unmoved(before, l, key, "request %d, a peek of %d over %d", i, q.Cost, q.Floor)
			got := s.ask(q)
			seen.Remaining, got.Remaining = 0, 0 // a peek tells what could be taken, a decision what is left
			s.same(seen, got, "request %d, a peek of %d over %d within %v", i, q.Cost, q.Floor, q.MaxWait)
		}
	})
}

// waits are the longest delays that random requests accept.
var waits = []time.Duration{0, 0, sluice.NoWait, 300 * time.Millisecond, time.Hour}
