package laws

import (
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
)

const day = 24 * time.Hour

// accepted are rates that every bucket and window must accept.
var accepted = []sluice.Rate{
	sluice.PerDay(1 << 30),
	sluice.Per(100<<30, 30*day),
	sluice.PerDay(1_000_000),
	sluice.PerDay(123_457),
	sluice.Per(1, 30*day),
	sluice.PerSecond(100_000_000),
}

// smallRate draws a rate of few units, at which requests meet often.
func smallRate(t *rapid.T) sluice.Rate {
	unit := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 7 * time.Second, time.Hour}).Draw(t, "period")
	return sluice.Per(rapid.Int64Range(1, 12).Draw(t, "count"), unit)
}

// rate draws a rate: half of them are small.
func rate(t *rapid.T) sluice.Rate {
	if rapid.Bool().Draw(t, "small") {
		return smallRate(t)
	}
	return rapid.SampledFrom(accepted).Draw(t, "rate")
}

// countDenied draws whether denied attempts are counted.
func countDenied(t *rapid.T) bool { return rapid.Bool().Draw(t, "count denied") }

// subject is a limit with its oracle.
type subject struct {
	limit  *sluice.Limit
	fresh  oracle
	period int64 // of the rate; the clock goes back no further
	leases bool
	hammer bool // denied attempts are counted
	bound  bound
}

// kind draws limits of one algorithm.
type kind struct {
	name string
	draw func(t *rapid.T) subject
}

// limited makes the subject of an algorithm with valid numbers.
func limited(t *rapid.T, a sluice.Algorithm, fresh oracle, r sluice.Rate, b bound) subject {
	t.Helper()
	l, err := sluice.NewLimit("law", a)
	if err != nil {
		t.Fatalf("%v: %v", a, err)
	}
	return subject{limit: l, fresh: fresh, period: r.Period().Microseconds(), bound: b}
}

var kinds = []kind{
	{"token_bucket", func(t *rapid.T) subject {
		a := sluice.TokenBucket{Rate: rate(t)}
		if rapid.Bool().Draw(t, "with burst") {
			a.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
			a.Debt = rapid.Int64Range(0, 20).Draw(t, "debt")
		}
		fresh := newBucket(a)
		return limited(t, a, fresh, a.Rate, bucketBound(a.Rate, fresh.(bucket).burst))
	}},
	{"token_bucket_warm_up", func(t *rapid.T) subject {
		a := sluice.TokenBucket{
			Rate:   smallRate(t),
			Burst:  rapid.Int64Range(1, 20).Draw(t, "burst"),
			WarmUp: time.Duration(rapid.Int64Range(1, 100).Draw(t, "warm-up")) * 100 * time.Millisecond,
		}
		if rapid.Bool().Draw(t, "with cold factor") {
			a.ColdFactor = rapid.Int64Range(2, 9).Draw(t, "cold factor")
		}
		return limited(t, a, newWarmBucket(a), a.Rate, bucketBound(a.Rate, a.Burst))
	}},
	{"leaky_bucket", func(t *rapid.T) subject {
		a := sluice.LeakyBucket{Rate: rate(t), Queue: rapid.Int64Range(0, 12).Draw(t, "queue")}
		a.Undelayed = rapid.Int64Range(0, a.Queue).Draw(t, "undelayed")
		return limited(t, a, newLeaky(a), a.Rate, leakyBound(a))
	}},
	{"fixed_window", func(t *rapid.T) subject {
		a := sluice.FixedWindow{Rate: rate(t), Opened: rapid.Bool().Draw(t, "opened")}
		a.CountDenied = countDenied(t)
		s := limited(t, a, newWindow(a), a.Rate, windowBound(a.Rate, 2*a.Rate.Count()))
		s.hammer = a.CountDenied
		return s
	}},
	{"sliding_window", func(t *rapid.T) subject {
		a := sluice.SlidingWindow{Rate: rate(t), Cells: rapid.SampledFrom([]int{1, 2, 5, 10}).Draw(t, "cells")}
		if a.Rate.Period()%(time.Duration(a.Cells)*time.Microsecond) != 0 {
			a.Cells = 1
		}
		a.CountDenied = countDenied(t)
		s := limited(t, a, newCells(a), a.Rate, windowBound(a.Rate, a.Rate.Count()))
		s.hammer = a.CountDenied
		return s
	}},
	{"sliding_counter", func(t *rapid.T) subject {
		a := sluice.SlidingCounter{Rate: rate(t), CountDenied: countDenied(t)}
		s := limited(t, a, newCounter(a), a.Rate, windowBound(a.Rate, 2*a.Rate.Count()-1))
		s.hammer = a.CountDenied
		return s
	}},
	{"sliding_log", func(t *rapid.T) subject {
		a := sluice.SlidingLog{Rate: smallRate(t), CountDenied: countDenied(t)}
		if rapid.Bool().Draw(t, "with min interval") {
			a.MinInterval = time.Duration(rapid.Int64Range(0, a.Rate.Period().Microseconds()).Draw(t, "min interval")) * time.Microsecond
		}
		s := limited(t, a, newLog(a), a.Rate, windowBound(a.Rate, a.Rate.Count()))
		s.hammer = a.CountDenied
		return s
	}},
	{"concurrency", func(t *rapid.T) subject {
		a := sluice.Concurrency{
			Max: rapid.Int64Range(1, 6).Draw(t, "max"), Queue: rapid.Int64Range(0, 3).Draw(t, "queue"),
			TTL: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(t, "ttl"),
		}
		s := limited(t, a, newLeases(a), sluice.Every(a.TTL), nil)
		s.leases = true
		return s
	}},
}
