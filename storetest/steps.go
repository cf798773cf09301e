package storetest

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// step is one request of a schedule and the decision about it.
type step struct {
	at   time.Duration // since the beginning
	cost int64
	want sluice.Decision // without Limit and Receipt
}

// pass is the decision about a request that may act now.
func pass(remaining int64, reset time.Duration) sluice.Decision {
	return sluice.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset}
}

// late is the decision about a request that may act after a delay.
func late(delay time.Duration, remaining int64, reset time.Duration) sluice.Decision {
	return sluice.Decision{Allowed: true, Delay: delay, Remaining: remaining, ResetAfter: reset}
}

// deny is the decision about a request that may come back after retry.
func deny(remaining int64, retry, reset time.Duration) sluice.Decision {
	return sluice.Decision{Reason: sluice.ReasonLimited, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

// soon is the decision about a request that comes before the minimum interval has passed.
func soon(remaining int64, retry, reset time.Duration) sluice.Decision {
	return sluice.Decision{Reason: sluice.ReasonTooSoon, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
}

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// india is a time zone with half an hour in its offset, 5:30 ahead of UTC.
var india = time.FixedZone("IST", int((5*time.Hour + 30*time.Minute).Seconds()))

// schedule has the decisions of an algorithm, computed by hand from its definition.
type schedule struct {
	name      string
	algorithm sluice.Algorithm
	steps     []step
}

// schedules are the decisions of each algorithm.
var schedules = []schedule{
	{"token_bucket", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5}, []step{
		{0, 3, pass(2, 600*ms)},
		{0, 3, deny(2, 200*ms, 600*ms)},
		{200*ms - us, 3, deny(2, us, 400*ms+us)},
		{200 * ms, 3, pass(0, 1000*ms)},
		{1300 * ms, 5, pass(0, 1000*ms)},
		{1300 * ms, 1, deny(0, 200*ms, 1000*ms)},
	}},
	{"token_bucket_thirds", sluice.TokenBucket{Rate: sluice.PerSecond(3), Burst: 2}, []step{
		// A third of a second is not a whole number of microseconds, and no part of it is lost.
		{0, 2, pass(0, 666_667*us)},
		{333_333 * us, 1, deny(0, us, 333_334*us)},
		{333_334 * us, 1, pass(0, 666_666*us)},
		{666_666 * us, 1, deny(0, us, 333_334*us)},
		{666_667 * us, 1, pass(0, 666_667*us)},
		{999_999 * us, 1, deny(0, us, 333_335*us)},
		{1000 * ms, 1, pass(0, 666_667*us)},
	}},
	{"token_bucket_warm_up", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5, WarmUp: time.Second}, []step{
		// The times are areas under Guava's ramp, which falls from 600 ms to the stable 200 ms.
		{0, 1, pass(0, 720*ms)},
		{0, 1, deny(0, 520*ms, 720*ms)},
		{520*ms - us, 1, deny(0, us, 200*ms+us)},
		{520 * ms, 1, pass(0, 760*ms)},
		{880 * ms, 1, pass(0, 820*ms)},
		{1100 * ms, 1, pass(0, 1000*ms)},
		{1300 * ms, 1, pass(0, 1200*ms)},
		{1500*ms - us, 1, deny(0, us, 1000*ms+us)},
	}},
	{"leaky_bucket", sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 2}, []step{
		{0, 1, pass(2, 200*ms)},
		{0, 1, late(200*ms, 1, 400*ms)},
		{0, 1, late(400*ms, 0, 600*ms)},
		{0, 1, deny(0, 200*ms, 600*ms)},
		{200*ms - us, 1, deny(0, us, 400*ms+us)},
		{200 * ms, 1, late(400*ms, 0, 600*ms)},
		{700 * ms, 2, late(300*ms, 0, 500*ms)},
	}},
	{"leaky_bucket_delay", sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 2, Undelayed: 1}, []step{
		{0, 1, pass(2, 200*ms)},
		{0, 1, pass(1, 400*ms)},
		{0, 1, late(200*ms, 0, 600*ms)},
		{0, 1, deny(0, 200*ms, 600*ms)},
	}},
	{"fixed_window", sluice.FixedWindow{Rate: sluice.PerSecond(5)}, []step{
		{300 * ms, 3, pass(2, 700*ms)},
		{900 * ms, 2, pass(0, 100*ms)},
		{900 * ms, 1, deny(0, 100*ms, 100*ms)},
		{1000*ms - us, 1, deny(0, us, us)},
		{1000 * ms, 5, pass(0, 1000*ms)},
	}},
	{"fixed_window_opened", sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true}, []step{
		{300 * ms, 3, pass(2, 1000*ms)},
		{1300*ms - us, 3, deny(2, us, us)},
		{1300 * ms, 3, pass(2, 1000*ms)},
		{5 * time.Second, 5, pass(0, 1000*ms)},
	}},
	{
		"fixed_window_day",
		sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarDay, Zone: india},
		[]step{
			{0, 5, pass(0, 18*time.Hour+30*time.Minute)},
			{time.Hour, 1, deny(0, 17*time.Hour+30*time.Minute, 17*time.Hour+30*time.Minute)},
			{18*time.Hour + 30*time.Minute, 5, pass(0, 24*time.Hour)},
		},
	},
	{"fixed_window_week", sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarWeek}, []step{
		// The clock begins on a Tuesday.
		{0, 4, pass(1, 6*24*time.Hour)},
		{6*24*time.Hour - us, 2, deny(1, us, us)},
		{6 * 24 * time.Hour, 5, pass(0, 7*24*time.Hour)},
	}},
	{"fixed_window_month", sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarMonth}, []step{
		{0, 4, pass(1, 31*24*time.Hour)},
		{31*24*time.Hour - us, 2, deny(1, us, us)},
		{31 * 24 * time.Hour, 5, pass(0, 28*24*time.Hour)},
	}},
	{"sliding_window", sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 5}, []step{
		{0, 3, pass(2, 1200*ms)},
		{500 * ms, 2, pass(0, 1100*ms)},
		{500 * ms, 1, deny(0, 700*ms, 1100*ms)},
		{1200*ms - us, 1, deny(0, us, 400*ms+us)},
		{1200 * ms, 3, pass(0, 1200*ms)},
		{1200 * ms, 3, deny(0, 1200*ms, 1200*ms)},
	}},
	{"sliding_counter", sluice.SlidingCounter{Rate: sluice.PerSecond(10)}, []step{
		{0, 10, pass(0, 2000*ms)},
		{1000 * ms, 1, deny(0, 100*ms, 1000*ms)},
		{1100*ms - us, 1, deny(0, us, 900*ms+us)},
		{1500 * ms, 5, pass(0, 1500*ms)},
		{1500 * ms, 1, deny(0, 100*ms, 1500*ms)},
		// A tenth of the window counts 0.5 of the five units: rounded up to one.
		{2900 * ms, 10, deny(9, 100*ms, 100*ms)},
		{3000 * ms, 10, pass(0, 2000*ms)},
	}},
	{"sliding_log", sluice.SlidingLog{Rate: sluice.PerSecond(5)}, []step{
		{0, 3, pass(2, 1000*ms)},
		{500 * ms, 2, pass(0, 1000*ms)},
		{500 * ms, 1, deny(0, 500*ms, 1000*ms)},
		{1000*ms - us, 3, deny(0, us, 500*ms+us)},
		{1000 * ms, 3, pass(0, 1000*ms)},
		{1000 * ms, 2, deny(0, 500*ms, 1000*ms)},
	}},
	{"fixed_window_count_denied", sluice.FixedWindow{Rate: sluice.PerSecond(5), CountDenied: true}, []step{
		{300 * ms, 3, pass(2, 700*ms)},
		{400 * ms, 3, deny(0, 600*ms, 600*ms)},
		{500 * ms, 1, deny(0, 500*ms, 500*ms)},
		{1000*ms - us, 1, deny(0, us, us)},
		{1000 * ms, 5, pass(0, 1000*ms)},
	}},
	{
		"fixed_window_opened_count_denied",
		sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true, CountDenied: true},
		[]step{
			{300 * ms, 3, pass(2, 1000*ms)},
			{1000 * ms, 3, deny(0, 300*ms, 300*ms)},
			{1200 * ms, 1, deny(0, 100*ms, 100*ms)},
			{1300 * ms, 3, pass(2, 1000*ms)},
		},
	},
	{
		"fixed_window_day_count_denied",
		sluice.FixedWindow{Rate: sluice.PerDay(5), Calendar: sluice.CalendarDay, Zone: india, CountDenied: true},
		[]step{
			{0, 4, pass(1, 18*time.Hour+30*time.Minute)},
			{time.Hour, 2, deny(0, 17*time.Hour+30*time.Minute, 17*time.Hour+30*time.Minute)},
			{2 * time.Hour, 1, deny(0, 16*time.Hour+30*time.Minute, 16*time.Hour+30*time.Minute)},
			{18*time.Hour + 30*time.Minute, 5, pass(0, 24*time.Hour)},
		},
	},
	{"sliding_window_count_denied", sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 5, CountDenied: true}, []step{
		{0, 3, pass(2, 1200*ms)},
		{500 * ms, 3, deny(0, 1100*ms, 1100*ms)},
		{500 * ms, 1, deny(0, 700*ms, 1100*ms)},
		// Seven units count, and three more pass after 1200 ms, but this attempt counts as well.
		{1200*ms - us, 1, deny(0, 400*ms+us, 1000*ms+us)},
		{1600*ms - us, 1, deny(0, us, 1000*ms+us)},
		{1600 * ms, 3, pass(0, 1200*ms)},
	}},
	{"sliding_counter_count_denied", sluice.SlidingCounter{Rate: sluice.PerSecond(10), CountDenied: true}, []step{
		{0, 10, pass(0, 2000*ms)},
		{500 * ms, 10, deny(0, 1500*ms, 1500*ms)},
		{500 * ms, 5, deny(0, 1300*ms, 1500*ms)},
		// A fifth of the window counts five of the 25 units. With the five of this attempt that is
		// ten.
		{1800*ms - us, 5, deny(0, 200*ms+us, 1200*ms+us)},
		{2000*ms - us, 1, pass(3, 1000*ms+us)},
	}},
	{"sliding_log_count_denied", sluice.SlidingLog{Rate: sluice.PerSecond(5), CountDenied: true}, []step{
		{0, 3, pass(2, 1000*ms)},
		{500 * ms, 3, deny(0, 1000*ms, 1000*ms)},
		{500 * ms, 1, deny(0, 500*ms, 1000*ms)},
		{1000*ms - us, 1, deny(0, 500*ms+us, 1000*ms)},
		{1500 * ms, 4, pass(0, 1000*ms)},
	}},
	{"concurrency", sluice.Concurrency{Max: 2, TTL: time.Second}, []step{
		{0, 1, pass(1, 1000*ms)},
		{100 * ms, 1, pass(0, 1000*ms)},
		{100 * ms, 1, deny(0, 900*ms, 1000*ms)},
		{1000 * ms, 1, pass(0, 1000*ms)},
	}},
	{
		"concurrency_queue",
		sluice.Concurrency{Max: 2, Queue: 2, TTL: time.Second, Latency: 100 * time.Millisecond},
		[]step{
			{0, 1, pass(3, 1000*ms)},
			{0, 1, pass(2, 1000*ms)},
			{0, 1, late(100*ms, 1, 1000*ms)},
			{0, 1, late(100*ms, 0, 1000*ms)},
			{0, 1, deny(0, 1000*ms, 1000*ms)},
		},
	},
}

// steps compares the decisions of each algorithm with decisions computed by hand. It peeks before
// each of them.
func steps(s *subject) {
	for _, c := range schedules {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := limit("steps", c.algorithm)
			for i, st := range c.steps {
				s.clock.Set(epoch.Add(st.at).UnixMicro())
				st.want.Limit = l.Capacity()
				seen := s.peek(l, key, st.cost)
				before := s.view(l, key)
				got := s.take(l, key, st.cost)
				s.same(got, st.want, "step %d at %v, cost %d", i, st.at, st.cost)
				s.foreseen(seen, got, before[0])
				if !got.Allowed && !l.Params().CountsDenied() {
					s.unmoved(before, l, key, "step %d, a denial", i)
				}
			}
		})
	}
}

// foreseen fails the test unless a peek equals the decision that followed. Only Remaining and ResetAfter
// differ: in the peek they are of the state as it is, as in a peek of no units.
func (s *subject) foreseen(seen, got, none sluice.Decision) {
	s.Helper()
	if got.Allowed {
		got.Remaining, got.ResetAfter = none.Remaining, none.ResetAfter
	}
	s.same(seen, got, "the peek and the decision that followed")
}
