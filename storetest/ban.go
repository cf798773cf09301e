package storetest

import (
	"time"

	"github.com/sluicehq/sluice"
)

// bans: after a number of denials a key is refused outright for a time. Its attempts do not
// prolong this time. Peeks and uncounted attempts do not count. A reset lifts the ban.
func bans(s *subject) {
	s.each(only(notCountingDenied), func(s *subject, c sample) {
		l := c.limit()
		terms := &sluice.Ban{After: 3, For: 20 * time.Second}
		r := s.complete(sluice.Request{Limit: l, Key: key, Cost: 1, Ban: terms})
		p := r
		p.Peek, p.Member = true, 0
		u := r
		u.Ban, u.Member = terms.Uncounted(), 0
		r.Cost = capacity
		s.allowed(s.decide(r), "the whole capacity")
		r.Cost = 1
		attempt := func() sluice.Decision {
			s.Helper()
			r.Member = 0
			return s.decide(r)
		}
		for range 5 {
			s.denied(s.decide(p), sluice.ReasonLimited, "a peek")
			s.denied(s.decide(u), sluice.ReasonLimited, "an attempt that does not count")
		}
		s.denied(attempt(), sluice.ReasonLimited, "the first denial")
		s.denied(attempt(), sluice.ReasonLimited, "the second denial")
		for range 5 {
			s.denied(s.decide(p), sluice.ReasonLimited, "a peek, two denials after the last unit")
		}
		foreseen := s.decide(p)
		d := attempt()
		s.denied(d, sluice.ReasonLimited, "the third denial")
		s.same(foreseen, d, "the peek and the third denial")
		if d.RetryAfter != 20*time.Second {
			s.Errorf("the denial that bans may come back after %v, want 20s", d.RetryAfter)
		}
		for range 19 {
			s.clock.Advance(time.Second)
			s.denied(attempt(), sluice.ReasonBanned, "an attempt while banned")
			s.denied(s.decide(u), sluice.ReasonBanned, "an attempt that does not count, while banned")
		}
		d = attempt()
		s.denied(d, sluice.ReasonBanned, "an attempt a second before the end")
		if d.RetryAfter != time.Second || d.Remaining != 0 || d.Limit != capacity {
			s.Errorf("an attempt a second before the end: %+v", d)
		}
		s.same(s.decide(p), d, "a peek while banned")
		p0 := p
		p0.Cost = 0
		s.denied(s.decide(p0), sluice.ReasonBanned, "no unit, while banned")
		// Only requests that carry a ban see it.
		s.allowed(s.peek(l, key, 1), "a request without a ban")
		other := p
		other.Key = sluice.StringKey("198.51.100.7")
		s.allowed(s.decide(other), "another key")
		s.clock.Advance(time.Second - us)
		s.denied(attempt(), sluice.ReasonBanned, "a microsecond before the end")
		s.clock.Advance(us)
		s.allowed(attempt(), "when the ban has ended")

		// A reset lifts it, and forgets the earlier denials.
		s.reset(l, key)
		s.take(l, key, capacity)
		for range 3 {
			attempt()
		}
		s.denied(attempt(), sluice.ReasonBanned, "banned again")
		s.reset(l, key)
		s.allowed(attempt(), "after a reset")
	})
}

// banWindow: denials add up within a time from the first one. Within defaults to For.
func banWindow(s *subject) {
	l := limit("window", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	terms := &sluice.Ban{After: 3, Within: 10 * time.Second, For: time.Minute}
	r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: terms}
	s.allowed(s.decide(r), "the only unit")
	for i := range 4 { // two denials, and the third comes too late
		s.denied(s.decide(r), sluice.ReasonLimited, "round %d, the first denial", i)
		s.clock.Advance(9 * time.Second)
		s.denied(s.decide(r), sluice.ReasonLimited, "round %d, the second denial, 9s later", i)
		s.clock.Advance(time.Second)
	}
	s.decide(r)
	s.clock.Advance(9 * time.Second)
	s.decide(r)
	s.decide(r)
	s.denied(s.decide(r), sluice.ReasonBanned, "after three within 10s")
	s.clock.Advance(time.Minute)
	// A ban that has ended leaves no denials behind.
	s.denied(s.decide(r), sluice.ReasonLimited, "the first denial after the ban")
	s.denied(s.decide(r), sluice.ReasonLimited, "the second denial after the ban")

	once := sluice.Request{Limit: l, Key: sluice.StringKey("once"), Cost: 1, Ban: &sluice.Ban{After: 1, For: time.Minute}}
	s.allowed(s.decide(once), "the only unit")
	s.denied(s.decide(once), sluice.ReasonLimited, "the denial that bans at once")
	s.denied(s.decide(once), sluice.ReasonBanned, "after it")
}

// banRetry: a client that comes back after the RetryAfter of a denial or a ban is allowed.
func banRetry(s *subject) {
	s.each(only(func(c sample) bool { return !c.countsDenied }), func(s *subject, c sample) {
		for _, terms := range []*sluice.Ban{
			{After: 2, For: 100 * time.Millisecond},
			{After: 2, For: 30 * time.Second},
		} {
			l := s.full(c)
			for i := range 4 {
				d := s.decide(s.complete(sluice.Request{Limit: l, Key: key, Cost: 3, Ban: terms}))
				if d.Allowed || d.RetryAfter <= 0 || d.ResetAfter < d.RetryAfter {
					s.Fatalf("attempt %d, ban for %v: %+v", i, terms.For, d)
				}
				now := s.clock.Now()
				s.clock.Advance(d.RetryAfter)
				if e := s.decide(sluice.Request{Limit: l, Key: key, Cost: 3, Ban: terms, Peek: true}); !e.Allowed {
					s.Fatalf("attempt %d, ban for %v: %+v, and then still %+v", i, terms.For, d, e)
				}
				s.clock.Set(now)
			}
			s.reset(l, key)
		}
	})
}

// banBatch: a denied request of a batch counts towards a ban if it would be denied by itself. It
// also counts if the batch's other requests for the same key deny it. Requests that would have
// passed do not count.
func banBatch(s *subject) {
	terms := &sluice.Ban{After: 2, For: time.Minute}
	empty := limit("empty", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	open := limit("open", sluice.FixedWindow{Rate: sluice.PerHour(5)})
	s.take(empty, key, 1)
	before := s.view(open, key)
	a := sluice.Request{Limit: open, Key: key, Cost: 1, Ban: terms}
	b := sluice.Request{Limit: empty, Key: key, Cost: 1, Ban: terms}
	for i := range 2 {
		out := s.batch(a, b)
		if !out[0].Allowed || out[1].Reason != sluice.ReasonLimited {
			s.Fatalf("batch %d: %+v", i, out)
		}
	}
	out := s.batch(a, b)
	if !out[0].Allowed || out[1].Reason != sluice.ReasonBanned {
		s.Errorf("the batch after two denials: %+v", out)
	}
	s.unmoved(before, open, key, "batches that were denied")
	for range 3 {
		s.allowed(s.decide(a), "a limit that denied nothing")
	}

	twice := limit("twice", sluice.FixedWindow{Rate: sluice.PerHour(5)})
	r := sluice.Request{Limit: twice, Key: key, Cost: 3, Ban: terms}
	before = s.view(twice, key)
	for i := range 2 {
		if out := s.batch(r, r); !out[0].Allowed || out[1].Reason != sluice.ReasonLimited {
			s.Fatalf("batch %d of six units of five: %+v", i, out)
		}
	}
	s.unmoved(before, twice, key, "batches that were denied")
	s.denied(s.decide(r), sluice.ReasonBanned, "after two denials of such batches")
}

// banEscalates: bans in a row last longer each time; after a quiet time the next ban is a first
// one again.
func banEscalates(s *subject) {
	l := limit("escalates", sluice.FixedWindow{Rate: sluice.PerDay(1)})
	r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: &sluice.Ban{
		After: 2, Within: 5 * time.Second, For: 10 * time.Second,
		Escalate: []time.Duration{time.Minute, time.Hour}, Forget: 100 * time.Second,
	}}
	s.allowed(s.decide(r), "the only unit")
	ban := func(want time.Duration, after string) {
		s.Helper()
		s.denied(s.decide(r), sluice.ReasonLimited, "%s: the first denial", after)
		s.decide(r)
		p := r
		p.Peek = true
		d := s.decide(p)
		s.denied(d, sluice.ReasonBanned, "%s: after two denials", after)
		// The window may end later than the ban; look only at the ban.
		s.clock.Advance(want - us)
		s.denied(s.decide(r), sluice.ReasonBanned, "%s: a microsecond before the end", after)
		s.clock.Advance(us)
		s.denied(s.decide(p), sluice.ReasonLimited, "%s: at the end", after)
	}
	ban(10*time.Second, "the first ban")
	ban(time.Minute, "the second")
	s.clock.Advance(100*time.Second - us)
	ban(time.Hour, "the third, a microsecond before the row is forgotten")
	ban(time.Hour, "the fourth")
	s.clock.Advance(100 * time.Second)
	ban(10*time.Second, "a ban when the row is forgotten")
	s.denied(s.decide(r), sluice.ReasonLimited, "a denial that leads to no ban")
	s.clock.Advance(105*time.Second - us)
	ban(time.Minute, "a ban with a denial in between")
	s.reset(l, key)
	s.allowed(s.decide(r), "the only unit after a reset")
	ban(10*time.Second, "a ban after a reset")
}

// banProlonged: attempts prolong a ban only with Prolong, and peeks and uncounted attempts never do.
func banProlonged(s *subject) {
	l := limit("prolong", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	open := sluice.Request{Limit: limit("open", sluice.FixedWindow{Rate: sluice.PerHour(9)}), Key: key, Cost: 1}
	for _, prolong := range []bool{false, true} {
		s.reset(l, key)
		r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: &sluice.Ban{After: 1, For: 10 * time.Second, Prolong: prolong}}
		p, u := r, r
		p.Peek, u.Ban = true, r.Ban.Uncounted()
		s.allowed(s.decide(r), "the only unit")
		s.denied(s.decide(r), sluice.ReasonLimited, "the denial that bans")
		for i, ask := range []func() sluice.Decision{
			func() sluice.Decision { return s.decide(r) },
			func() sluice.Decision { return s.batch(open, r)[1] },
			func() sluice.Decision { return s.batch(r, r)[1] },
		} {
			s.clock.Advance(3 * time.Second)
			foreseen := s.decide(p)
			d := ask()
			s.denied(d, sluice.ReasonBanned, "attempt %d while banned, prolong %t", i, prolong)
			s.same(foreseen, d, "the peek and the attempt")
			for range 5 {
				s.decide(p)
				s.denied(s.decide(u), sluice.ReasonBanned, "an attempt that does not count, prolong %t", prolong)
			}
		}
		s.clock.Advance(time.Second)
		if prolong {
			s.clock.Advance(9 * time.Second)
		}
		s.clock.Advance(-us)
		s.denied(s.decide(p), sluice.ReasonBanned, "a microsecond before the end, prolong %t", prolong)
		s.clock.Advance(us)
		s.denied(s.decide(p), sluice.ReasonLimited, "at the end, prolong %t", prolong)
	}
}

// banByHandOnly: the zero Ban bans nobody.
func banByHandOnly(s *subject) {
	l := limit("hand", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	r := sluice.Request{Limit: l, Key: key, Cost: 1, Ban: &sluice.Ban{}}
	s.allowed(s.decide(r), "the only unit")
	for range 20 {
		s.denied(s.decide(r), sluice.ReasonLimited, "a denial")
	}
	s.clock.Advance(time.Hour)
	s.allowed(s.decide(r), "in the next window")
}
