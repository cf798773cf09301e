package laws

import (
	"cmp"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/oracle"
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

// smallRate draws a rate of few units, so that requests often compete.
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

// A subject is a limit with its oracle.
type subject struct {
	limit  *sluice.Limit
	fresh  oracle.State
	period int64 // the period of the rate; the clock goes back no further
	leases bool
	hammer bool // denied attempts are counted
	bound  bound
}

// A kind draws limits of one algorithm.
type kind struct {
	name string
	draw func(t *rapid.T) subject
}

// limited returns the subject of an algorithm with valid numbers.
func limited(t *rapid.T, a sluice.Algorithm, fresh oracle.State, r sluice.Rate, b bound) subject {
	t.Helper()
	l, err := sluice.NewLimit("law", a)
	if err != nil {
		t.Fatalf("%v is valid, but was refused: %v", a, err)
	}
	return subject{limit: l, fresh: fresh, period: r.Period().Microseconds(), bound: b}
}

// us returns the microseconds of a duration.
func us(d time.Duration) int64 { return d.Microseconds() }

var kinds = []kind{
	{"token_bucket", func(t *rapid.T) subject {
		a := sluice.TokenBucket{Rate: rate(t)}
		if rapid.Bool().Draw(t, "with burst") {
			a.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
			a.Debt = rapid.Int64Range(0, 20).Draw(t, "debt")
		}
		burst := cmp.Or(a.Burst, a.Rate.Count())
		fresh := oracle.NewBucket(a.Rate.Count(), us(a.Rate.Period()), burst, cmp.Or(a.Debt, burst))
		return limited(t, a, fresh, a.Rate, bucketBound(a.Rate, burst))
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
		fresh := oracle.NewWarmBucket(a.Rate.Count(), us(a.Rate.Period()), a.Burst, a.Burst, us(a.WarmUp), cmp.Or(a.ColdFactor, 3))
		return limited(t, a, fresh, a.Rate, bucketBound(a.Rate, a.Burst))
	}},
	{"leaky_bucket", func(t *rapid.T) subject {
		a := sluice.LeakyBucket{Rate: rate(t), Queue: rapid.Int64Range(0, 12).Draw(t, "queue")}
		a.Undelayed = rapid.Int64Range(0, a.Queue).Draw(t, "undelayed")
		return limited(t, a, oracle.NewLeaky(a.Rate.Count(), us(a.Rate.Period()), a.Queue, a.Undelayed), a.Rate, leakyBound(a))
	}},
	{"fixed_window", func(t *rapid.T) subject {
		a := sluice.FixedWindow{Rate: rate(t), Opened: rapid.Bool().Draw(t, "opened")}
		a.CountDenied = countDenied(t)
		s := limited(t, a, oracle.NewWindow(a.Rate.Count(), us(a.Rate.Period()), a.Opened, a.CountDenied), a.Rate, windowBound(a.Rate, 2*a.Rate.Count()))
		s.hammer = a.CountDenied
		return s
	}},
	{"sliding_window", func(t *rapid.T) subject {
		a := sluice.SlidingWindow{Rate: rate(t), Cells: rapid.SampledFrom([]int{1, 2, 5, 10}).Draw(t, "cells")}
		if a.Rate.Period()%(time.Duration(a.Cells)*time.Microsecond) != 0 {
			a.Cells = 1
		}
		a.CountDenied = countDenied(t)
		s := limited(t, a, oracle.NewCells(a.Rate.Count(), us(a.Rate.Period()), int64(a.Cells), a.CountDenied), a.Rate, windowBound(a.Rate, a.Rate.Count()))
		s.hammer = a.CountDenied
		return s
	}},
	{"sliding_counter", func(t *rapid.T) subject {
		a := sluice.SlidingCounter{Rate: rate(t), CountDenied: countDenied(t)}
		s := limited(t, a, oracle.NewCounter(a.Rate.Count(), us(a.Rate.Period()), a.CountDenied), a.Rate, windowBound(a.Rate, 2*a.Rate.Count()-1))
		s.hammer = a.CountDenied
		return s
	}},
	{"sliding_log", func(t *rapid.T) subject {
		a := sluice.SlidingLog{Rate: smallRate(t), CountDenied: countDenied(t)}
		if rapid.Bool().Draw(t, "with min interval") {
			a.MinInterval = time.Duration(rapid.Int64Range(0, a.Rate.Period().Microseconds()).Draw(t, "min interval")) * time.Microsecond
		}
		s := limited(t, a, oracle.NewLog(a.Rate.Count(), us(a.Rate.Period()), us(a.MinInterval), a.CountDenied), a.Rate, windowBound(a.Rate, a.Rate.Count()))
		s.hammer = a.CountDenied
		return s
	}},
	{"concurrency", func(t *rapid.T) subject {
		a := sluice.Concurrency{
			Max: rapid.Int64Range(1, 6).Draw(t, "max"), Queue: rapid.Int64Range(0, 3).Draw(t, "queue"),
			TTL:     rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(t, "ttl"),
			Latency: rapid.SampledFrom([]time.Duration{0, time.Millisecond}).Draw(t, "latency"),
		}
		latency := a.Latency
		if latency == 0 && a.Queue > 0 {
			latency = 100 * time.Millisecond
		}
		s := limited(t, a, oracle.NewLeases(a.Max, a.Queue, us(a.TTL), us(latency)), sluice.Every(a.TTL), nil)
		s.leases = true
		return s
	}},
}
