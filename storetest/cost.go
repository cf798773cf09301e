package storetest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// zeroCost: a cost of zero passes, even for a key that has nothing left, and leaves no trace.
func zeroCost(s *subject) {
	s.each(only(notPaced), func(s *subject, c sample) {
		l := c.limit()
		s.allowed(s.take(l, key, 0), "no unit of a fresh key")
		s.remaining(l, key, capacity, "after a cost of zero")
		s.full(c)
		before := s.view(l, key)
		for range 3 {
			d := s.take(l, key, 0)
			s.allowed(d, "no unit of a key with nothing left")
			if d.Remaining != 0 || d.Delay != 0 {
				s.Errorf("no unit of a key with nothing left: %+v", d)
			}
		}
		s.unmoved(before, l, key, "a cost of zero")
	})
	s.Run("debt", func(t *testing.T) {
		s := s.suite.subject(t)
		l := limit("debt", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5})
		s.settle(s.charge(sluice.Request{Limit: l, Key: key, Cost: 5}), 7)
		d := s.take(l, key, 0)
		s.denied(d, sluice.ReasonLimited, "no unit of a key that owes two")
		if d.RetryAfter != 400*time.Millisecond {
			s.Errorf("retry after %v, want 400ms", d.RetryAfter)
		}
		s.clock.Advance(d.RetryAfter)
		s.allowed(s.take(l, key, 0), "no unit of a key that has paid its debt")
	})
}

// never: a cost beyond the capacity never passes and changes nothing. Its denial has the reason
// never.
func never(s *subject) {
	s.each(samples, func(s *subject, c sample) {
		l := c.limit()
		for _, used := range []bool{false, true} {
			if used {
				s.take(l, key, 1)
			}
			before := s.view(l, key)
			for _, cost := range []int64{capacity + 1, 1 << 40, math.MaxInt64} {
				for _, wait := range []time.Duration{0, sluice.NoWait, time.Hour, math.MaxInt64} {
					d := s.decide(sluice.Request{Limit: l, Key: key, Cost: cost, MaxWait: wait})
					s.denied(d, sluice.ReasonNever, "%d units of %d", cost, capacity)
					if d.RetryAfter != 0 {
						s.Errorf("%d units of %d will never pass, and may come back after %v", cost, capacity, d.RetryAfter)
					}
				}
			}
			s.unmoved(before, l, key, "what never passes")
		}
	})
}

// longTimes: a time beyond what a time.Duration holds, some 292 years, becomes the longest
// Duration, not a negative or short one.
func longTimes(s *subject) {
	const century = 36500 * 24 * time.Hour
	for burst := int64(2); burst < 700; burst = burst*5/4 + 1 {
		for _, a := range []sluice.Algorithm{
			sluice.TokenBucket{Rate: sluice.Every(century), Burst: burst},
			sluice.LeakyBucket{Rate: sluice.Every(century), Queue: burst - 1, Undelayed: burst - 1},
		} {
			l := limit("", a)
			least := time.Duration(min(burst, 2)) * century
			if d := s.take(l, key, burst); !d.Allowed || d.ResetAfter < least || d.Delay != 0 {
				s.Errorf("%v: all of it: %+v", l, d)
			}
			if d := s.take(l, key, burst); d.Allowed || d.RetryAfter < least || d.ResetAfter < least {
				s.Errorf("%v: all of it again: %+v", l, d)
			}
			if d := s.peek(l, key, burst); d.Allowed || d.RetryAfter < least || d.ResetAfter < least {
				s.Errorf("%v: a peek: %+v", l, d)
			}
		}
	}
}

// refused: an invalid request is a RequestError and changes nothing.
func refused(s *subject) {
	ctx := context.Background()
	wrong := func(err error, format string, args ...any) {
		s.Helper()
		var problem *sluice.RequestError
		if !errors.As(err, &problem) {
			s.Errorf(format+": want a RequestError, got %v", append(args, err)...)
		}
	}
	ban := sluice.Ban{After: 1, For: time.Minute}
	noDenials, noTime, negative := ban, ban, ban
	noDenials.After, noTime.For, negative.Within = 0, 0, -1
	for _, c := range samples {
		l := c.limit()
		s.take(l, sluice.StringKey(c.name), 1)
		before := s.view(l, sluice.StringKey(c.name))
		valid := s.complete(sluice.Request{Limit: l, Key: sluice.StringKey(c.name), Cost: 1})
		for problem, spoil := range map[string]func(*sluice.Request){
			"no limit":               func(r *sluice.Request) { r.Limit = nil },
			"a negative cost":        func(r *sluice.Request) { r.Cost = -1 },
			"the most negative cost": func(r *sluice.Request) { r.Cost = math.MinInt64 },
			"a negative floor":       func(r *sluice.Request) { r.Floor = -1 },
			"a ban for no denials":   func(r *sluice.Request) { r.Ban = &noDenials },
			"a ban for no time":      func(r *sluice.Request) { r.Ban = &noTime },
			"a ban within less":      func(r *sluice.Request) { r.Ban = &negative },
		} {
			r := valid
			spoil(&r)
			d, err := s.store.Decide(ctx, r)
			wrong(err, "%s: %s", c.name, problem)
			if d.Allowed {
				s.Errorf("%s: %s: allowed: %+v", c.name, problem, d)
			}
			out := make([]sluice.Decision, 2)
			wrong(s.store.DecideAll(ctx, []sluice.Request{valid, r}, out), "%s: %s in a batch", c.name, problem)
			r.Peek = true
			_, err = s.store.Decide(ctx, r)
			wrong(err, "%s: %s in a peek", c.name, problem)
		}
		if c.lease {
			r := valid
			r.Member = 0
			_, err := s.store.Decide(ctx, r)
			wrong(err, "a lease without a member")
		}
		charge := valid.Charge(&sluice.Decision{})
		if !c.lease {
			wrong(s.store.Settle(ctx, charge, -1), "%s: settling at a negative cost", c.name)
		}
		charge.Limit = nil
		wrong(s.store.Cancel(ctx, charge), "canceling a charge without a limit")
		wrong(s.store.Settle(ctx, charge, 1), "settling a charge without a limit")
		wrong(s.store.Release(ctx, charge, 0), "releasing a charge without a limit")
		wrong(s.store.Reset(ctx, nil, key), "resetting no limit")
		s.unmoved(before, l, sluice.StringKey(c.name), "requests that make no sense")
		s.reset(l, sluice.StringKey(c.name))
	}
}
