package decisions

import (
	"math/big"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
)

// family draws numbers of one algorithm, and bounds what acts under several of them.
type family struct {
	name string
	draw func(t *rapid.T) sluice.Algorithm
	// most returns the most units over an interval of some microseconds, both ends included. All admissions of the interval are under some
	// of these numbers. It is nil for concurrency, which bounds what is held.
	most func(numbers []sluice.Algorithm, within int64) int64
}

// periods are few, so that numbers often differ only in their count.
func drawPeriod(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{time.Second, time.Second, 500 * time.Millisecond, 3 * time.Second}).Draw(t, "period")
}

func drawRate(t *rapid.T) sluice.Rate {
	return sluice.Per(rapid.Int64Range(1, 12).Draw(t, "count"), drawPeriod(t))
}

var families = []family{
	{"token_bucket", func(t *rapid.T) sluice.Algorithm {
		return sluice.TokenBucket{Rate: drawRate(t), Burst: rapid.Int64Range(1, 20).Draw(t, "burst")}
	}, mostOfPaces(0)},
	{"token_bucket_warm_up", func(t *rapid.T) sluice.Algorithm {
		return sluice.TokenBucket{
			Rate: drawRate(t), Burst: rapid.Int64Range(1, 20).Draw(t, "burst"),
			WarmUp: time.Duration(rapid.Int64Range(1, 20).Draw(t, "warm-up")) * 100 * time.Millisecond,
		}
	}, mostOfPaces(1)},
	{"leaky_bucket", func(t *rapid.T) sluice.Algorithm {
		queue := rapid.Int64Range(0, 9).Draw(t, "queue")
		return sluice.LeakyBucket{Rate: drawRate(t), Queue: queue, Undelayed: rapid.Int64Range(0, queue).Draw(t, "undelayed")}
	}, mostOfPaces(0)},
	{"fixed_window", func(t *rapid.T) sluice.Algorithm {
		return sluice.FixedWindow{Rate: drawRate(t), Opened: rapid.Bool().Draw(t, "opened")}
	}, mostOfWindows},
	{"sliding_window", func(t *rapid.T) sluice.Algorithm {
		return sluice.SlidingWindow{Rate: drawRate(t), Cells: rapid.SampledFrom([]int{1, 5}).Draw(t, "cells")}
	}, mostOfWindows},
	{"sliding_counter", func(t *rapid.T) sluice.Algorithm { return sluice.SlidingCounter{Rate: drawRate(t)} }, mostOfWindows},
	{"sliding_log", func(t *rapid.T) sluice.Algorithm { return sluice.SlidingLog{Rate: drawRate(t)} }, mostOfWindows},
	{"concurrency", func(t *rapid.T) sluice.Algorithm {
		return sluice.Concurrency{
			Max: rapid.Int64Range(1, 6).Draw(t, "max"), Queue: rapid.Int64Range(0, 3).Draw(t, "queue"),
			TTL: rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second}).Draw(t, "ttl"),
		}
	}, nil},
}

// mostOfPaces is the largest burst and the highest rate. Some moments are rounded up by up to so many microseconds.
func mostOfPaces(rounded int64) func([]sluice.Algorithm, int64) int64 {
	return func(numbers []sluice.Algorithm, within int64) int64 {
		burst, rate := int64(0), new(big.Rat)
		for _, a := range numbers {
			var r sluice.Rate
			switch a := a.(type) {
			case sluice.TokenBucket:
				burst, r = max(burst, a.Burst), a.Rate
			case sluice.LeakyBucket:
				burst, r = max(burst, a.Undelayed+1), a.Rate
			}
			if of := big.NewRat(r.Count(), r.Period().Microseconds()); of.Cmp(rate) > 0 {
				rate = of
			}
		}
		rate.Mul(rate, big.NewRat(within+rounded, 1))
		return burst + new(big.Int).Div(rate.Num(), rate.Denom()).Int64()
	}
}

// mostOfWindows is the bound of the largest count, if only counts differ. Otherwise it is the sum of the bounds. Sliding
// windows and logs admit the largest count over the shortest period.
func mostOfWindows(numbers []sluice.Algorithm, within int64) (most int64) {
	type form struct {
		period int64
		cells  int
		opened bool
	}
	counts := map[form]int64{} // the largest count of each form
	largest, shortest, slides := int64(0), int64(1<<62), false
	more, least := int64(1), int64(0) // how many more periods than its length an interval touches, and the units that it lacks of these
	for _, a := range numbers {
		var f form
		var r sluice.Rate
		switch a := a.(type) {
		case sluice.FixedWindow:
			r, f.opened, more = a.Rate, a.Opened, 2
		case sluice.SlidingCounter:
			r, more, least = a.Rate, 2, 1
		case sluice.SlidingWindow:
			r, f.cells, slides = a.Rate, a.Cells, true
		case sluice.SlidingLog:
			r, slides = a.Rate, true
		}
		f.period = r.Period().Microseconds()
		counts[f] = max(counts[f], r.Count())
		largest, shortest = max(largest, r.Count()), min(shortest, f.period)
	}
	if slides && within < shortest {
		return largest
	}
	for f, count := range counts {
		bound := count * (within/f.period + more)
		if within < f.period && len(counts) == 1 {
			bound = max(count, bound-least)
		}
		most += bound
	}
	return most
}
