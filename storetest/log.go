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
