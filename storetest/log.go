package storetest

import (
	"time"

	"github.com/sluicehq/sluice"
)

// minInterval: two requests are at least the interval apart, whatever is left.
func minInterval(s *subject) {
	l := limit("interval", sluice.SlidingLog{Rate: sluice.PerSecond(5), MinInterval: 100 * time.Millisecond})
	s.allowed(s.take(l, key, 2), "the first request")
	s.clock.Advance(60 * time.Millisecond)
	want := soon(3, 40*ms, 940*ms)
	want.Limit = 5
	s.same(s.take(l, key, 1), want, "60ms later")
	s.clock.Advance(40*time.Millisecond - us)
	want = soon(3, us, 900*ms+us)
	want.Limit = 5
	s.same(s.take(l, key, 1), want, "a microsecond before the interval has passed")
	s.clock.Advance(us)
	s.allowed(s.take(l, key, 3), "when it has passed")
	// Both the interval and the budget must allow: the later one tells.
	if d := s.take(l, key, 1); d.Reason != sluice.ReasonLimited || d.RetryAfter != 900*time.Millisecond {
		s.Errorf("with nothing left: %+v", d)
	}
	// A batch cannot ask twice: one of them would come too soon.
	s.clock.Advance(5 * time.Second)
	before := s.view(l, key)
	r := sluice.Request{Limit: l, Key: key, Cost: 1}
	if out := s.batch(r, r); !out[0].Allowed || out[1].Reason != sluice.ReasonTooSoon {
		s.Errorf("twice in a batch: %+v", out)
	}
	s.unmoved(before, l, key, "a batch that was denied")
}

// countDenied: with CountDenied a denied attempt counts as one that passed, so
// that whoever keeps hammering stays blocked, and whoever waits is let in.
func countDenied(s *subject) {
	l := limit("hammer", sluice.SlidingLog{Rate: sluice.PerSecond(2), CountDenied: true})
	s.allowed(s.take(l, key, 1), "the first")
	s.allowed(s.take(l, key, 1), "the second")
	// Five seconds of an attempt every 100 ms: none passes.
	for i := range 50 {
		s.clock.Advance(100 * time.Millisecond)
		d := s.take(l, key, 1)
		s.denied(d, sluice.ReasonLimited, "attempt %d", i)
		// The last two units count, this one among them: one must leave.
		if d.RetryAfter != 900*time.Millisecond || d.Remaining != 0 || d.ResetAfter != time.Second {
			s.Fatalf("attempt %d: %+v", i, d)
		}
	}
	s.clock.Advance(900 * time.Millisecond)
	s.allowed(s.take(l, key, 1), "after a pause of the time that was told")

	// A peek that is denied is no attempt, nor is a cost that never passes.
	s.clock.Advance(5 * time.Second)
	s.take(l, key, 2)
	s.clock.Advance(100 * time.Millisecond)
	before := s.view(l, key)
	for range 5 {
		s.denied(s.peek(l, key, 1), sluice.ReasonLimited, "a peek")
		s.denied(s.take(l, key, 3), sluice.ReasonNever, "three units of two")
		s.allowed(s.take(l, key, 0), "no unit")
	}
	s.unmoved(before, l, key, "peeks, and costs of zero and of too much")
	s.clock.Advance(900 * time.Millisecond)
	s.remaining(l, key, 2, "a second after the last charge")

	// Without it, a denial leaves nothing.
	plain := limit("plain", sluice.SlidingLog{Rate: sluice.PerSecond(2)})
	s.take(plain, key, 2)
	for range 10 {
		s.clock.Advance(99 * time.Millisecond)
		s.take(plain, key, 1)
	}
	s.clock.Advance(10 * time.Millisecond)
	s.remaining(plain, key, 2, "a second after the charge, denials in between")
}
