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

// debit returns a debit of n units.
func debit(l *sluice.Limit, n int64) sluice.Request {
	return sluice.Request{Limit: l, Key: key, Cost: n, Debit: true}
}

// over is the decision about a request for more units than the limit has.
func over(reset time.Duration) sluice.Decision {
	return sluice.Decision{Reason: sluice.ReasonNever, ResetAfter: reset}
}

// debits are the decisions about debits, computed by hand. A cost of zero shows when the debt is paid.
var debits = []schedule{
	{"token_bucket", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5}, []step{
		{0, 3, pass(2, 600*ms)},
		{0, 3, deny(0, 800*ms, 1200*ms)}, // one is owed, and three more are needed
		{0, 0, deny(0, 200*ms, 1200*ms)},
		{200 * ms, 0, pass(0, 1000*ms)},
		{800 * ms, 3, pass(0, 1000*ms)},
		{800 * ms, 9, over(2000 * ms)}, // it owes five at most
		{800 * ms, 0, deny(0, 1000*ms, 2000*ms)},
		{800 * ms, math.MaxInt64, over(2000 * ms)},
		{1800 * ms, 0, pass(0, 1000*ms)},
	}},
	{"token_bucket_warm_up", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5, WarmUp: time.Second}, []step{
		{0, 1, pass(0, 720*ms)},
		{0, 1, deny(0, 880*ms, 1280*ms)}, // the second unit is paid for at less than the first
		{880*ms - us, 0, deny(0, us, 400*ms+us)},
		{880 * ms, 0, pass(5, 400*ms)},
	}},
	{"fixed_window", sluice.FixedWindow{Rate: sluice.PerSecond(5)}, []step{
		{300 * ms, 4, pass(1, 700*ms)},
		{400 * ms, 1, pass(0, 600*ms)},
		{400 * ms, 0, pass(0, 600*ms)}, // all is used, and no more
		{400 * ms, 3, deny(0, 600*ms, 600*ms)},
		{400 * ms, 0, deny(0, 600*ms, 600*ms)},
		{500 * ms, 9, over(500 * ms)},
		{500 * ms, math.MaxInt64, over(500 * ms)},
		{1000*ms - us, 0, deny(0, us, us)},
		{1000 * ms, 5, pass(0, 1000*ms)},
		{2000 * ms, 6, over(1000 * ms)}, // the first of its window
		{2000 * ms, 0, deny(0, 1000*ms, 1000*ms)},
	}},
	{"fixed_window_opened", sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true}, []step{
		{300 * ms, 9, over(1000 * ms)}, // opens a window
		{1300*ms - us, 1, deny(0, us, us)},
		{1300 * ms, 3, pass(2, 1000*ms)},
	}},
	{
		"fixed_window_day",
		sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarDay, Zone: india},
		[]step{
			{0, 4, pass(1, 18*time.Hour+30*time.Minute)},
			{time.Hour, 2, deny(0, 17*time.Hour+30*time.Minute, 17*time.Hour+30*time.Minute)},
			{18*time.Hour + 30*time.Minute, 5, pass(0, 24*time.Hour)},
		},
	},
	{"sliding_window", sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 5}, []step{
		{0, 3, pass(2, 1200*ms)},
		{500 * ms, 3, deny(0, 1100*ms, 1100*ms)}, // six of five
		{500 * ms, 0, deny(0, 700*ms, 1100*ms)},
		{1200 * ms, 2, pass(0, 1200*ms)},
		{1200 * ms, 0, pass(0, 1200*ms)},
		{1400 * ms, 6, over(1200 * ms)},
		{1400 * ms, math.MaxInt64, over(1200 * ms)},
	}},
	{"sliding_counter", sluice.SlidingCounter{Rate: sluice.PerSecond(10)}, []step{
		{0, 10, pass(0, 2000*ms)},
		{500 * ms, 10, deny(0, 1500*ms, 1500*ms)},
		{500 * ms, 0, deny(0, 1000*ms, 1500*ms)}, // twenty count in full until half of the next window
		{1500*ms - us, 0, deny(0, us, 500*ms+us)},
		{1500 * ms, 0, pass(0, 500*ms)},
		{1500 * ms, 11, over(1500 * ms)},
		{1500 * ms, math.MaxInt64, over(1500 * ms)},
	}},
	{"sliding_log", sluice.SlidingLog{Rate: sluice.PerSecond(5)}, []step{
		{0, 3, pass(2, 1000*ms)},
		{500 * ms, 4, deny(0, 1000*ms, 1000*ms)},
		{500 * ms, 0, deny(0, 500*ms, 1000*ms)},
		{1000*ms - us, 0, deny(0, us, 500*ms+us)},
		{1000 * ms, 1, pass(0, 1000*ms)},
		{1000 * ms, 6, over(1000 * ms)},
		{1000 * ms, math.MaxInt64, over(1000 * ms)},
		{2000 * ms, 5, pass(0, 1000*ms)},
	}},
	{
		"sliding_log_min_interval",
		sluice.SlidingLog{Rate: sluice.PerSecond(5), MinInterval: 50 * ms},
		[]step{
			{0, 1, pass(4, 1000*ms)},
			{40 * ms, 1, soon(3, 50*ms, 1000*ms)},
			{90*ms - us, 0, pass(3, 950*ms+us)},
			{90 * ms, 1, pass(2, 1000*ms)},
		},
	},
	{"fixed_window_count_denied", sluice.FixedWindow{Rate: sluice.PerSecond(5), CountDenied: true}, []step{
		{0, 5, pass(0, 1000*ms)},
		{0, 0, pass(0, 1000*ms)},
		{0, 1, deny(0, 1000*ms, 1000*ms)}, // it counts once
		{0, 0, deny(0, 1000*ms, 1000*ms)},
	}},
}

// debitSteps compares the decisions about debits with decisions computed by hand. A debit has the
// decision of the same request without Debit, and charges its whole cost.
func debitSteps(s *subject) { s.keepSchedules("debits", debits, debit) }

// keepSchedules compares decisions with schedules. The function request makes a request of a cost. A peek has the decision
// of the request, except for its numbers, and changes nothing.
func (s *subject) keepSchedules(name string, all []schedule, request func(*sluice.Limit, int64) sluice.Request) {
	for _, c := range all {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := limit(name, c.algorithm)
			for i, st := range c.steps {
				s.clock.Set(epoch.Add(st.at).UnixMicro())
				st.want.Limit = l.Capacity()
				r := request(l, st.cost)
				before := s.view(l, key)
				r.Peek = true
				seen := s.decide(r)
				s.unmoved(before, l, key, "step %d, a peek", i)
				r.Peek = false
				got := s.decide(r)
				s.same(got, st.want, "step %d at %v, cost %d", i, st.at, st.cost)
				if seen.Allowed != got.Allowed || seen.Reason != got.Reason || seen.Delay != got.Delay {
					s.Errorf("step %d: a peek got %+v, and the request %+v", i, seen, got)
				}
			}
		})
	}
}

// indebted are the samples whose limits take debits and count no attempts.
func indebted(c sample) bool { return c.limit().TakesDebits() && !c.countsDenied && !c.paced }

// debitIsSettled: a debit of more than is left has the effect of a decision of no cost that is settled
// at the whole cost.
func debitIsSettled(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, other := c.limit(), limit("settled", c.algorithm)
		for _, used := range []int64{0, 2, 5} {
			for _, cost := range []int64{1, 4, 5, 8, 100} {
				s.reset(l, key)
				s.reset(other, key)
				s.take(l, key, used)
				s.take(other, key, used)
				s.decide(debit(l, cost))
				s.settle(s.charge(sluice.Request{Limit: other, Key: key}), cost)
				s.unmoved(s.view(other, key), l, key, "a debit of %d, with %d used", cost, used)
				for range 12 {
					s.clock.Advance(333 * ms)
					s.unmoved(s.view(other, key), l, key, "a debit of %d, with %d used, later", cost, used)
				}
			}
		}
	})
}

// debitEnds: a debit that was allowed is a charge like any other.
func debitEnds(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l := c.limit()
		s.cancel(s.charge(debit(l, 3)))
		s.remaining(l, key, capacity, "a debit that was cancelled")
		s.settle(s.charge(debit(l, 3)), 1)
		s.remaining(l, key, capacity-1, "a debit that was settled at one unit")
	})
}

// debitBatch: a batch charges its debits, also if it is denied, before it decides the others.
// A debit that is denied denies the others.
func debitBatch(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l := c.limit()
		free := limit("free", sluice.FixedWindow{Rate: sluice.PerHour(9)})
		spent := limit("spent", sluice.TokenBucket{Rate: sluice.PerHour(1)})
		s.take(spent, key, 1)
		one := sluice.Request{Limit: free, Key: key, Cost: 1}
		none := sluice.Request{Limit: spent, Key: key, Cost: 1}
		for _, rs := range [][]sluice.Request{{debit(l, 2), none, one}, {none, one, debit(l, 2)}} {
			s.reset(l, key)
			untouched := s.view(free, key)
			out := s.batch(rs...)
			for i, r := range rs {
				switch {
				case r.Debit && (!out[i].Allowed || out[i].Remaining != 3):
					s.Errorf("a debit of two in a batch that is denied: %+v", out)
				case r.Limit == free && (!out[i].Allowed || out[i].Remaining != 9):
					s.Errorf("a request that is not charged: %+v", out)
				case r.Limit == spent && out[i].Allowed:
					s.Errorf("nothing is left: %+v", out)
				}
			}
			s.remaining(l, key, 3, "a debit of two in a batch that was denied")
			s.unmoved(untouched, free, key, "a batch that was denied")
		}
		// More than is left: it is charged, and nothing else is.
		s.reset(l, key)
		untouched := s.view(free, key)
		out := s.batch(one, debit(l, 7))
		if !out[0].Allowed || out[1].Allowed || out[1].Reason != sluice.ReasonNever {
			s.Errorf("a debit that is denied: %+v", out)
		}
		s.unmoved(untouched, free, key, "a batch that a debit denies")
		s.denied(s.take(l, key, 0), sluice.ReasonLimited, "seven of five")
		// Several for one key add up, and come before the others.
		s.reset(l, key)
		out = s.batch(debit(l, 2), one, debit(l, 2), debit(l, 2))
		for i, allowed := range []bool{true, true, true, false} {
			if out[i].Allowed != allowed {
				s.Errorf("debits of two, three times: %+v", out)
			}
		}
		s.unmoved(untouched, free, key, "a batch that the third debit denies")
		s.denied(s.take(l, key, 0), sluice.ReasonLimited, "six of five")
		s.reset(l, key)
		out = s.batch(sluice.Request{Limit: l, Key: key, Cost: 3}, debit(l, 4))
		if out[0].Allowed || !out[1].Allowed {
			s.Errorf("three units, and a debit leaves one: %+v", out)
		}
		s.remaining(l, key, 1, "a debit of four, and three units that were denied")
		out = s.batch(sluice.Request{Limit: l, Key: key, Cost: 1}, debit(free, 9))
		if !out[0].Allowed || !out[1].Allowed || out[0].Remaining != 0 {
			s.Errorf("a unit and a debit that fits: %+v", out)
		}
		// Denied debits of no cost charge nothing.
		if out = s.batch(debit(l, 0), one); !out[0].Allowed || out[1].Allowed {
			s.Errorf("a debit of no cost: %+v", out)
		}
	})
}

// debitVersions: a debit charges a state under other numbers of its limit.
func debitVersions(s *subject) {
	for name, alg := range resized {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			small, large := limit("versions", alg(4)), limit("versions", alg(12))
			if !small.TakesDebits() {
				return
			}
			s.take(large, key, 3)
			s.denied(s.decide(debit(small, 2)), sluice.ReasonLimited, "two units, and one is left")
			s.remaining(large, key, 7, "three units, and a debit of two")
			s.take(large, key, 0)
			out := s.batch(debit(small, 3), sluice.Request{Limit: large, Key: key, Cost: 5})
			if out[0].Allowed || out[1].Allowed {
				s.Errorf("a debit of three, and five units of four: %+v", out)
			}
			s.remaining(large, key, 4, "three units, and debits of two and three")
		})
	}
}

// debitShadow: a debit that is a shadow is charged, and denies nothing.
func debitShadow(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, free := c.limit(), limit("free", sluice.FixedWindow{Rate: sluice.PerHour(9)})
		r := debit(l, 4)
		r.Shadow = true
		for i := range 2 {
			out := s.batch(r, sluice.Request{Limit: free, Key: key, Cost: 1})
			if out[0].Allowed != (i == 0) || !out[1].Allowed {
				s.Errorf("batch %d: %+v", i, out)
			}
		}
		s.denied(s.take(l, key, 0), sluice.ReasonLimited, "eight of five")
		s.remaining(free, key, 7, "two batches")
	})
}

// debitBans: a debit that is denied counts towards a ban, and a debit of a banned key is charged.
func debitBans(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l := c.limit()
		r := debit(l, 3)
		r.Ban = &sluice.Ban{After: 1, For: 400 * ms}
		s.allowed(s.decide(r), "three of five")
		s.denied(s.decide(r), sluice.ReasonLimited, "six of five")
		before := s.take(l, key, 0)
		s.denied(before, sluice.ReasonLimited, "six of five are used")
		d := s.decide(r)
		s.denied(d, sluice.ReasonBanned, "a banned key")
		after := s.take(l, key, 0)
		if after.ResetAfter <= before.ResetAfter && after.RetryAfter <= before.RetryAfter && c.name == "token_bucket" {
			s.Errorf("a debit of a banned key is not charged: %+v, before it %+v", after, before)
		}
		r.Peek = true
		s.clock.Advance(d.RetryAfter - us)
		if early := s.decide(r); early.Allowed {
			s.Errorf("a microsecond before RetryAfter: %+v", early)
		}
		s.clock.Advance(us)
		s.allowed(s.decide(r), "at RetryAfter of %+v", d)
	})
}

// debtRefusesAll: while a key owes units, a cost of 0 is denied, in a batch too, whatever the algorithm, and also if
// denied attempts count. It passes when the debt is paid, not earlier.
func debtRefusesAll(s *subject) {
	owing := func(c sample) bool { return c.limit().TakesDebits() }
	s.each(only(owing), func(s *subject, c sample) {
		l, free := c.limit(), limit("free", sluice.FixedWindow{Rate: sluice.PerHour(9)})
		for _, floor := range []int64{0, 2} {
			s.reset(l, key)
			none := sluice.Request{Limit: l, Key: key, Floor: floor}
			s.allowed(s.decide(none), "a fresh key, with a floor of %d", floor)
			s.decide(debit(l, capacity+2))
			d := s.decide(none)
			s.denied(d, sluice.ReasonLimited, "seven of five, with a floor of %d", floor)
			if out := s.batch(sluice.Request{Limit: free, Key: key, Cost: 1}, none); out[1].Allowed {
				s.Errorf("a batch with a cost of 0 in debt: %+v", out)
			}
			s.remaining(free, key, 9, "a batch that a cost of 0 denies")
			s.clock.Advance(d.RetryAfter - us)
			s.denied(s.decide(none), sluice.ReasonLimited, "a microsecond before RetryAfter")
			s.clock.Advance(us)
			s.allowed(s.decide(none), "at RetryAfter of %+v", d)
		}
	})
}

// debitRefused: limits that cannot owe units refuse debits, and change nothing.
func debitRefused(s *subject) {
	ctx := context.Background()
	free := limit("free", sluice.FixedWindow{Rate: sluice.PerHour(9)})
	for _, c := range samples {
		l := c.limit()
		if l.TakesDebits() {
			continue
		}
		r := s.complete(debit(l, 1))
		before := []view{s.view(l, key), s.view(free, key)}
		var problem *sluice.RequestError
		if _, err := s.store.Decide(ctx, r); !errors.As(err, &problem) {
			s.Errorf("%s: a debit: want a RequestError, got %v", c.name, err)
		}
		if err := s.store.DecideAll(ctx, []sluice.Request{debit(free, 1), r}, make([]sluice.Decision, 2)); !errors.As(err, &problem) {
			s.Errorf("%s: a debit in a batch: want a RequestError, got %v", c.name, err)
		}
		s.unmoved(before[0], l, key, "debits that were refused")
		s.unmoved(before[1], free, key, "debits that were refused")
	}
}

// debitConcurrent: concurrent debits all count, singly and in batches that are denied.
func debitConcurrent(s *subject) {
	const units = 100
	alg := map[string]func(count int64) sluice.Algorithm{
		"token_bucket": func(n int64) sluice.Algorithm {
			return sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: n, Debt: 1 << 20}
		},
		"fixed_window":    func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: sluice.PerDay(n)} },
		"sliding_window":  func(n int64) sluice.Algorithm { return sluice.SlidingWindow{Rate: sluice.PerDay(n)} },
		"sliding_counter": func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: sluice.PerDay(n)} },
	}
	for name, alg := range alg {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			l, spent := limit("debits", alg(units)), limit("spent", sluice.FixedWindow{Rate: sluice.PerDay(1)})
			s.take(spent, key, 1)
			attempts := max(s.suite.attempts/100, 10)
			var allowed, failed atomic.Int64
			s.parallel(goroutines, func(int) {
				out := make([]sluice.Decision, 2)
				for i := range attempts {
					var err error
					if i%2 == 0 {
						out[0], err = s.store.Decide(context.Background(), debit(l, 2))
					} else {
						err = s.store.DecideAll(context.Background(), []sluice.Request{debit(l, 2), {Limit: spent, Key: key, Cost: 1}}, out)
					}
					switch {
					case err != nil:
						failed.Add(1)
					case out[0].Allowed:
						allowed.Add(2)
					}
				}
			})
			if allowed.Load() != units || failed.Load() > 0 {
				s.Errorf("%d units were there and %d debits failed, want %d and 0", allowed.Load(), failed.Load(), units)
			}
			total := int64(2 * goroutines * attempts)
			s.remaining(limit("debits", alg(total+5)), key, 5, "all debits of %d units", total)
		})
	}
}

// debitKeys: debits of several keys are charged in a batch that a request for another key denies.
func debitKeys(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, spent := c.limit(), limit("spent", sluice.TokenBucket{Rate: sluice.PerHour(1)})
		ks := []sluice.Key{sluice.StringKey("x"), sluice.StringKey("y"), sluice.StringKey("z")}
		none := sluice.Request{Limit: spent, Key: sluice.StringKey("n"), Cost: 1}
		s.decide(none)
		rs := []sluice.Request{none}
		for _, k := range ks {
			r := debit(l, 2)
			r.Key = k
			plain := r
			plain.Cost, plain.Debit = 1, false
			rs = append(rs, r, plain)
		}
		out := s.batch(rs...)
		for i, r := range rs[1:] {
			if d := out[i+1]; !d.Allowed || d.Remaining != 3 || (d.Receipt != sluice.Receipt{}) != r.Debit {
				s.Errorf("request %d of a batch that is denied: %+v", i+1, d)
			}
			s.remaining(l, r.Key, 3, "a debit of two, and a unit that is not charged")
		}
		for i, r := range rs {
			if r.Debit {
				s.cancel(r.Charge(&out[i]))
				s.remaining(l, r.Key, capacity, "a debit that was cancelled")
			}
		}
	})
}
