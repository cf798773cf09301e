package storetest

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// overdraw returns an overdraw of n units.
func overdraw(l *sluice.Limit, n int64) sluice.Request {
	return sluice.Request{Limit: l, Key: key, Cost: n, Overdraw: true}
}

// overdraws are the decisions about overdraws, computed by hand.
var overdraws = []schedule{
	{"token_bucket", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5}, []step{
		{0, 4, pass(1, 800*ms)},
		{0, 21, pass(0, 5000*ms)},           // one was left, and twenty are owed: the debt has no bound
		{0, 1, deny(0, 4200*ms, 5000*ms)},   // one unit is enough
		{0, 100, deny(0, 4200*ms, 5000*ms)}, // for any cost
		{4200*ms - us, 2, deny(0, us, 800*ms+us)},
		{4200 * ms, 2, pass(0, 1200*ms)},
		{4200 * ms, math.MaxInt64, over(1200 * ms)}, // nobody can count it
	}},
	{"token_bucket_warm_up", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5, WarmUp: time.Second}, []step{
		{0, 7, pass(0, 2900*ms)}, // 1.9 s, and a second to be cold
		{0, 1, deny(0, 1900*ms, 2900*ms)},
		{1900 * ms, 1, pass(0, 1200*ms)},
	}},
	{"fixed_window", sluice.FixedWindow{Rate: sluice.PerSecond(5)}, []step{
		{300 * ms, 4, pass(1, 700*ms)},
		{400 * ms, 9, pass(0, 600*ms)},
		{400 * ms, 1, deny(0, 600*ms, 600*ms)},
		{400 * ms, 0, deny(0, 600*ms, 600*ms)},
		{1000 * ms, 7, pass(0, 1000*ms)}, // the next window owes nothing
		{1500 * ms, math.MaxInt64, over(500 * ms)},
	}},
	{"fixed_window_opened", sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true}, []step{
		{300 * ms, 9, pass(0, 1000*ms)},
		{1300*ms - us, 1, deny(0, us, us)},
	}},
	{"sliding_window", sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 5}, []step{
		{0, 4, pass(1, 1200*ms)},
		{500 * ms, 3, pass(0, 1100*ms)},
		{500 * ms, 2, deny(0, 700*ms, 1100*ms)}, // one of five when the four have left
		{1200 * ms, 3, pass(0, 1200*ms)},
	}},
	{"sliding_counter", sluice.SlidingCounter{Rate: sluice.PerSecond(10)}, []step{
		{0, 20, pass(0, 2000*ms)},
		{500 * ms, 1, deny(0, 1050*ms, 1500*ms)}, // twenty weigh nine after 55 % of the next window
		{1550*ms - us, 1, deny(0, us, 450*ms+us)},
		{1550 * ms, 5, pass(0, 1450*ms)},
	}},
	{"sliding_log", sluice.SlidingLog{Rate: sluice.PerSecond(5)}, []step{
		{0, 4, pass(1, 1000*ms)},
		{500 * ms, 70, pass(0, 1000*ms)},
		{500 * ms, 1, deny(0, 1000*ms, 1000*ms)},
		{1500 * ms, 5, pass(0, 1000*ms)},
		{1500 * ms, 1 << 18, over(1000 * ms)},
	}},
	{"fixed_window_count_denied", sluice.FixedWindow{Rate: sluice.PerSecond(5), CountDenied: true}, []step{
		{0, 5, pass(0, 1000*ms)},
		{0, 0, pass(0, 1000*ms)},
		{0, 3, deny(0, 1000*ms, 1000*ms)}, // its whole cost counts
		{0, 0, deny(0, 1000*ms, 1000*ms)},
	}},
}

// overdrawSteps compares the decisions about overdraws with decisions computed by hand.
func overdrawSteps(s *subject) { s.keepSchedules("overdraws", overdraws, overdraw) }

// overdrawFits: an overdraw of no more than is left has the decision and the effect of a plain request.
func overdrawFits(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, other := c.limit(), limit("plain", c.algorithm)
		for _, cost := range []int64{0, 1, 3, capacity} {
			s.reset(l, key)
			s.reset(other, key)
			s.same(s.decide(overdraw(l, cost)), s.take(other, key, cost), "an overdraw of %d", cost)
			s.unmoved(s.view(other, key), l, key, "an overdraw of %d", cost)
		}
	})
}

// overdrawEnds: an overdraw that is settled has taken the actual cost, to the unit, and nothing if it is given back.
func overdrawEnds(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, other := c.limit(), limit("actual", c.algorithm)
		for _, cost := range []int64{2, capacity, capacity + 1, 1000} {
			for _, actual := range []int64{0, 1, capacity, capacity + 3} {
				s.reset(l, key)
				s.reset(other, key)
				s.take(l, key, 1)
				s.take(other, key, 1)
				charge := s.charge(overdraw(l, cost))
				if actual == 0 {
					if err := s.store.Cancel(context.Background(), charge); err == nil {
						s.unmoved(s.view(other, key), l, key, "an overdraw of %d that was cancelled", cost)
						continue
					} else if !errors.Is(err, sluice.ErrActed) {
						s.Fatal(err)
					}
				}
				s.settle(charge, actual)
				s.decide(debit(other, actual))
				s.unmoved(s.view(other, key), l, key, "an overdraw of %d that was settled at %d", cost, actual)
			}
		}
	})
}

// overdrawBatch: overdraws are a part of all or nothing. A second one for the same key finds nothing left.
func overdrawBatch(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l := c.limit()
		free, spent := limit("free", sluice.FixedWindow{Rate: sluice.PerHour(9)}), limit("spent", sluice.TokenBucket{Rate: sluice.PerHour(1)})
		s.take(spent, key, 1)
		one := sluice.Request{Limit: free, Key: key, Cost: 1}
		untouched := []view{s.view(l, key), s.view(free, key)}
		if out := s.batch(overdraw(l, 7), one, sluice.Request{Limit: spent, Key: key, Cost: 1}); !out[0].Allowed || out[2].Allowed {
			s.Errorf("a batch that another limit denies: %+v", out)
		}
		if out := s.batch(one, overdraw(l, 7), overdraw(l, 7)); !out[1].Allowed || out[2].Allowed {
			s.Errorf("two overdraws of seven: %+v", out)
		}
		s.unmoved(untouched[0], l, key, "batches that are denied")
		s.unmoved(untouched[1], free, key, "batches that are denied")
		if out := s.batch(one, overdraw(l, 7)); !out[0].Allowed || !out[1].Allowed {
			s.Errorf("an overdraw of seven: %+v", out)
		}
		s.denied(s.take(l, key, 0), sluice.ReasonLimited, "seven of five")
		s.remaining(free, key, 8, "a batch that passes")
		// Shadows are decided on their own.
		s.reset(l, key)
		shadow := overdraw(l, 7)
		shadow.Shadow = true
		out := s.batch(shadow, shadow, one)
		if !out[0].Allowed || out[1].Allowed || !out[2].Allowed {
			s.Errorf("two shadows of seven: %+v", out)
		}
	})
}

// overdrawVersions: an overdraw passes or not by the numbers of its own version.
func overdrawVersions(s *subject) {
	for name, alg := range resized {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			small, large := limit("versions", alg(4)), limit("versions", alg(12))
			if !small.TakesDebits() {
				return
			}
			s.take(large, key, 4)
			s.denied(s.decide(overdraw(small, 9)), sluice.ReasonLimited, "four of four")
			s.remaining(large, key, 8, "an overdraw that was denied")
			s.allowed(s.decide(overdraw(large, 20)), "four of twelve")
			s.denied(s.take(large, key, 0), sluice.ReasonLimited, "24 of twelve")
		})
	}
}

// overdrawRefused: limits that cannot owe units refuse overdraws, and no request is a debit too.
func overdrawRefused(s *subject) {
	ctx := context.Background()
	for _, c := range samples {
		l := c.limit()
		r := s.complete(overdraw(l, 1))
		r.Debit = l.TakesDebits()
		before := s.view(l, key)
		var problem *sluice.RequestError
		if _, err := s.store.Decide(ctx, r); !errors.As(err, &problem) {
			s.Errorf("%s: %+v: want a RequestError, got %v", c.name, r, err)
		}
		if err := s.store.DecideAll(ctx, []sluice.Request{r, r}, make([]sluice.Decision, 2)); !errors.As(err, &problem) {
			s.Errorf("%s: a batch: want a RequestError, got %v", c.name, err)
		}
		s.unmoved(before, l, key, "overdraws that were refused")
	}
}

// overdrawConcurrent: of concurrent overdraws, one goes into debt.
func overdrawConcurrent(s *subject) {
	const units, cost = 100, 7
	for name, a := range map[string]sluice.Algorithm{
		"token_bucket": sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: units},
		"fixed_window": sluice.FixedWindow{Rate: sluice.PerDay(units)},
	} {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := limit("overdraws", a)
			var allowed, failed atomic.Int64
			s.parallel(goroutines, func(int) {
				for range max(s.suite.attempts/100, 10) {
					switch d, err := s.store.Decide(context.Background(), overdraw(l, cost)); {
					case err != nil:
						failed.Add(1)
					case d.Allowed:
						allowed.Add(1)
					}
				}
			})
			if want := int64((units + cost - 1) / cost); allowed.Load() != want || failed.Load() > 0 {
				s.Errorf("%d overdraws of %d units passed and %d failed, want %d and 0", allowed.Load(), cost, failed.Load(), want)
			}
		})
	}
}
