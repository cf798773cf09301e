package storetest

import (
	"time"

	"github.com/sluicehq/sluice"
)

// capacity is how many units every sample can give at once.
const capacity = 5

// sample is an algorithm that gives up to capacity units at once. All of them come back within a
// few seconds.
type sample struct {
	name      string
	algorithm sluice.Algorithm
	// paced: after a charge of any cost the next request must wait, however many units are left.
	paced bool
	// countsDenied: a denial may change the state.
	countsDenied bool
	// lease: the units are given back by Release.
	lease bool
	// bound is the most units that may be admitted, or depart, within a time.
	bound func(within time.Duration) int64
}

func (c sample) limit() *sluice.Limit { return limit("sample", c.algorithm) }

// flow is a bound of burst units at once plus five units per second.
func flow(burst int64) func(time.Duration) int64 {
	return func(w time.Duration) int64 { return burst + int64(5*w/time.Second) }
}

// windows is a bound of count units in each second that an interval touches.
func windows(count int64) func(time.Duration) int64 {
	return func(w time.Duration) int64 { return count * (int64(w/time.Second) + 1) }
}

var fivePerSecond = sluice.PerSecond(5)

// samples are the algorithms, each in its variants.
var samples = []sample{
	{name: "token_bucket", algorithm: sluice.TokenBucket{Rate: fivePerSecond, Burst: 5}, bound: flow(5)},
	{
		name: "token_bucket_warm_up", algorithm: sluice.TokenBucket{Rate: fivePerSecond, Burst: 5, WarmUp: time.Second},
		paced: true, bound: flow(5),
	},
	// Admitted units may still wait in the queue: one more unit may depart.
	{name: "leaky_bucket", algorithm: sluice.LeakyBucket{Rate: fivePerSecond, Queue: 4}, bound: flow(5)},
	{name: "leaky_bucket_nodelay", algorithm: sluice.LeakyBucket{Rate: fivePerSecond, Queue: 4, Undelayed: 4}, bound: flow(5)},
	{name: "fixed_window", algorithm: sluice.FixedWindow{Rate: fivePerSecond}, bound: windows(10)},
	{name: "fixed_window_opened", algorithm: sluice.FixedWindow{Rate: fivePerSecond, Opened: true}, bound: windows(10)},
	{name: "sliding_window", algorithm: sluice.SlidingWindow{Rate: fivePerSecond, Cells: 10}, bound: windows(5)},
	{name: "sliding_counter", algorithm: sluice.SlidingCounter{Rate: fivePerSecond}, bound: windows(9)},
	{
		name: "fixed_window_count_denied", algorithm: sluice.FixedWindow{Rate: fivePerSecond, CountDenied: true},
		countsDenied: true, bound: windows(10),
	},
	{
		name: "fixed_window_opened_count_denied", algorithm: sluice.FixedWindow{Rate: fivePerSecond, Opened: true, CountDenied: true},
		countsDenied: true, bound: windows(10),
	},
	{
		name: "sliding_window_count_denied", algorithm: sluice.SlidingWindow{Rate: fivePerSecond, Cells: 10, CountDenied: true},
		countsDenied: true, bound: windows(5),
	},
	{
		name: "sliding_counter_count_denied", algorithm: sluice.SlidingCounter{Rate: fivePerSecond, CountDenied: true},
		countsDenied: true, bound: windows(9),
	},
	{name: "sliding_log", algorithm: sluice.SlidingLog{Rate: fivePerSecond}, bound: windows(5)},
	{
		name: "sliding_log_min_interval", algorithm: sluice.SlidingLog{Rate: fivePerSecond, MinInterval: 50 * time.Millisecond},
		paced: true, bound: windows(5),
	},
	{
		name: "sliding_log_count_denied", algorithm: sluice.SlidingLog{Rate: fivePerSecond, CountDenied: true},
		countsDenied: true, bound: windows(5),
	},
	{name: "concurrency", algorithm: sluice.Concurrency{Max: 5, TTL: time.Second}, lease: true, bound: windows(5)},
	{
		name:      "concurrency_queue",
		algorithm: sluice.Concurrency{Max: 2, Queue: 3, TTL: time.Second, Latency: 100 * time.Millisecond},
		lease:     true, bound: windows(5),
	},
}

// only returns the samples for which keep holds.
func only(keep func(c sample) bool) []sample {
	var kept []sample
	for _, c := range samples {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

func notPaced(c sample) bool { return !c.paced }

func countingDenied(c sample) bool { return c.countsDenied }

func notCountingDenied(c sample) bool { return !c.countsDenied }

// full returns the limit of a sample with all units of the key taken.
func (s *subject) full(c sample) *sluice.Limit {
	s.Helper()
	l := c.limit()
	s.allowed(s.take(l, key, capacity), "the whole capacity of a fresh key")
	return l
}
