package storetest

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// reservation is a row of a table. It requests units at a time, with any wait; they act at another
// time. With cancel, it gives back an earlier row's units instead.
type reservation struct {
	at     time.Duration
	units  int64
	acts   time.Duration
	cancel int // the row to cancel, counted from 1, instead of a request
}

const tenth = 100 * time.Millisecond

// reservations are schedules of a token bucket of ten units a second. For them,
// golang.org/x/time/rate returns the same times.
var reservations = []struct {
	name  string
	burst int64
	rows  []reservation
}{
	{"in_a_row", 2, []reservation{
		{at: 0, units: 2, acts: 0},
		{at: 0, units: 2, acts: 2 * tenth},
		{at: 3 * tenth, units: 2, acts: 4 * tenth},
	}},
	{"mixed", 2, []reservation{
		{at: 0, units: 1, acts: 0},
		{at: 0, units: 2, acts: tenth},
		{at: tenth, units: 1, acts: 2 * tenth},
		{at: 10 * tenth, units: 2, acts: 10 * tenth},
	}},
	{"cancel_last", 2, []reservation{
		{at: 0, units: 2, acts: 0},
		{at: 0, units: 2, acts: 2 * tenth},
		{at: tenth, cancel: 2},
		{at: tenth, units: 2, acts: 2 * tenth},
	}},
	{"cancel_too_late", 2, []reservation{
		{at: 0, units: 2, acts: 0},
		{at: 0, units: 2, acts: 2 * tenth},
		{at: 3 * tenth, cancel: 2},
		{at: 3 * tenth, units: 2, acts: 4 * tenth},
	}},
	{"cancel_returns_none", 2, []reservation{
		{at: 0, units: 2, acts: 0},
		{at: 0, units: 2, acts: 2 * tenth},
		{at: 0, units: 2, acts: 4 * tenth},
		{at: tenth, cancel: 2}, // the third row relies on all of it
		{at: tenth, units: 1, acts: 5 * tenth},
	}},
	{"cancel_returns_one", 2, []reservation{
		{at: 0, units: 2, acts: 0},
		{at: 0, units: 2, acts: 2 * tenth},
		{at: 0, units: 1, acts: 3 * tenth},
		{at: 2 * tenth, cancel: 2},
		{at: 2 * tenth, units: 2, acts: 4 * tenth},
	}},
	{"cancel_two", 4, []reservation{
		{at: 0, units: 4, acts: 0},
		{at: 0, units: 3, acts: 3 * tenth},
		{at: 0, units: 1, acts: 4 * tenth},
		{at: 0, units: 1, acts: 5 * tenth},
		{at: tenth, cancel: 4}, // as if it had never been made
		{at: tenth, cancel: 2}, // two: the third row relies on the others
		{at: tenth, units: 3, acts: 5 * tenth},
	}},
	{"cancel_at_once", 2, []reservation{
		{at: 0, units: 2, acts: 0},
		{at: 0, cancel: 1},
		{at: 0, units: 2, acts: 0},
	}},
}

// reserve: a token bucket goes into debt for a request that can wait, and returns the delay. A
// request that cannot be served in time is denied and takes nothing.
func reserve(s *subject) {
	for _, c := range reservations {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := limit("reserve", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: c.burst})
			charges := make([]sluice.Charge, len(c.rows))
			for i, row := range c.rows {
				s.clock.Set(epoch.Add(row.at).UnixMicro())
				if row.cancel > 0 {
					if c.rows[row.cancel-1].acts < row.at {
						s.cancelActed(charges[row.cancel-1])
					} else {
						s.cancel(charges[row.cancel-1])
					}
					continue
				}
				r := sluice.Request{Limit: l, Key: key, Cost: row.units, MaxWait: time.Hour}
				if wait := row.acts - row.at; wait > 0 {
					early := r
					early.MaxWait = wait - us
					s.denied(s.decide(early), sluice.ReasonLimited, "row %d, a wait that is a microsecond too short", i+1)
				}
				d := s.decide(r)
				if !d.Allowed || row.at+d.Delay != row.acts {
					s.Fatalf("row %d: %d units at %v act at %v, want %v: %+v", i+1, row.units, row.at, row.at+d.Delay, row.acts, d)
				}
				charges[i] = r.Charge(&d)
			}
		})
	}
	s.Run("retry", func(t *testing.T) {
		s := s.suite.subject(t)
		l := limit("retry", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 2})
		s.take(l, key, 2)
		r := sluice.Request{Limit: l, Key: key, Cost: 2, MaxWait: 150 * time.Millisecond}
		d := s.decide(r)
		s.denied(d, sluice.ReasonLimited, "units that come in 200ms, within 150ms")
		if d.RetryAfter != 50*time.Millisecond {
			s.Errorf("the same request may come back after %v, want 50ms", d.RetryAfter)
		}
		s.clock.Advance(d.RetryAfter)
		if d = s.decide(r); !d.Allowed || d.Delay != 150*time.Millisecond {
			s.Errorf("50ms later: %+v", d)
		}
	})
	s.Run("queue", func(t *testing.T) {
		s := s.suite.subject(t)
		l := limit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 4})
		s.take(l, key, 2)
		r := sluice.Request{Limit: l, Key: key, Cost: 1, MaxWait: sluice.NoWait}
		s.denied(s.decide(r), sluice.ReasonLimited, "a turn that is to come at once, with one waiting")
		r.MaxWait = 199 * time.Millisecond
		s.denied(s.decide(r), sluice.ReasonLimited, "a turn within 199ms, with 200ms of work before it")
		r.MaxWait = 200 * time.Millisecond
		if d := s.decide(r); !d.Allowed || d.Delay != 200*time.Millisecond {
			s.Errorf("a turn within 200ms, with 200ms of work before it: %+v", d)
		}
	})
}
