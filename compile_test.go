package sluice_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
)

// TestRatesThatMustBeAccepted has rates that other limiters count inexactly or refuse.
func TestRatesThatMustBeAccepted(t *testing.T) {
	for _, r := range []sluice.Rate{
		sluice.PerDay(1 << 30), sluice.Per(100<<30, 30*24*time.Hour), sluice.PerDay(1_000_000),
		sluice.PerDay(123_457), sluice.Per(1, 30*24*time.Hour), sluice.PerSecond(100_000_000),
	} {
		algorithms := []sluice.Algorithm{
			sluice.TokenBucket{Rate: r},
			sluice.TokenBucket{Rate: r, Burst: 1},
			sluice.LeakyBucket{Rate: r},
			sluice.LeakyBucket{Rate: r, Queue: r.Count(), Undelayed: r.Count() / 2},
			sluice.FixedWindow{Rate: r},
			sluice.FixedWindow{Rate: r, Opened: true},
			sluice.FixedWindow{Rate: r, Calendar: sluice.CalendarMonth},
			sluice.SlidingWindow{Rate: r},
			sluice.SlidingCounter{Rate: r},
		}
		if r.Count() <= 65_536 { // a log holds an entry for each
			algorithms = append(algorithms, sluice.SlidingLog{Rate: r})
		}
		for _, a := range algorithms {
			if _, err := sluice.NewLimit("", a); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDefaultDebtsFitBesideBursts: if a burst leaves little room for a debt, the default debt takes that room.
func TestDefaultDebtsFitBesideBursts(t *testing.T) {
	const most = 1<<53 - 2
	p := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.Per(1<<53, time.Microsecond)}).Params()
	if p.Bucket.Burst != most || p.Bucket.Debt != 1 {
		t.Errorf("the bucket holds %d and owes %d", p.Bucket.Burst, p.Bucket.Debt)
	}
	if p = sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerSecond(1_000_000), Queue: most - 1}).Params(); p.Capacity != most {
		t.Errorf("the capacity is %d", p.Capacity)
	}
}

func TestNewLimitRefuses(t *testing.T) {
	r := sluice.PerMinute(100)
	for _, step := range []struct {
		algorithm sluice.Algorithm
		field     string
		nearest   string
	}{
		{nil, "Algorithm", ""},
		{sluice.TokenBucket{}, "Rate", ""},
		{sluice.TokenBucket{Rate: r, Burst: -1}, "Burst", ""},
		{sluice.TokenBucket{Rate: r, Burst: 1<<53 + 1}, "Burst", ""},
		{sluice.TokenBucket{Rate: r, Burst: 1<<53 - 1}, "Burst", ""},
		{sluice.TokenBucket{Rate: r, Burst: 1 << 52, Debt: 1 << 52}, "Debt", ""},
		{sluice.TokenBucket{Rate: r, Debt: -1}, "Debt", ""},
		{sluice.TokenBucket{Rate: r, Debt: math.MaxInt64}, "Debt", ""},
		{sluice.TokenBucket{Rate: sluice.PerDay(7), Burst: 1 << 40}, "Rate", "43200/d"},
		{sluice.TokenBucket{Rate: r, ColdFactor: 3}, "ColdFactor", ""},
		{sluice.TokenBucket{Rate: r, WarmUp: time.Second, ColdFactor: 1}, "ColdFactor", ""},
		{sluice.TokenBucket{Rate: r, WarmUp: time.Second, ColdFactor: 101}, "ColdFactor", ""},
		{sluice.TokenBucket{Rate: r, WarmUp: -1}, "WarmUp", ""},
		{sluice.TokenBucket{Rate: r, WarmUp: time.Second + 1}, "WarmUp", ""},
		{sluice.TokenBucket{Rate: r, WarmUp: 25 * time.Hour}, "WarmUp", ""},
		{sluice.TokenBucket{Rate: sluice.PerDay(999_999_999_989), Burst: 1, WarmUp: 24 * time.Hour, ColdFactor: 100}, "WarmUp", ""},
		{sluice.LeakyBucket{}, "Rate", ""},
		{sluice.LeakyBucket{Rate: r, Queue: -1}, "Queue", ""},
		{sluice.LeakyBucket{Rate: r, Queue: 1 << 53}, "Queue", ""},
		{sluice.LeakyBucket{Rate: r, Queue: 1<<53 - 2}, "Queue", ""},
		{sluice.LeakyBucket{Rate: r, Queue: 3, Undelayed: 4}, "Undelayed", ""},
		{sluice.LeakyBucket{Rate: r, Undelayed: -1}, "Undelayed", ""},
		{sluice.LeakyBucket{Rate: sluice.PerDay(7), Queue: 1 << 40}, "Rate", "21600/d"},
		{sluice.FixedWindow{}, "Rate", ""},
		{sluice.FixedWindow{Rate: r, Calendar: 9}, "Calendar", ""},
		{sluice.FixedWindow{Rate: r, Calendar: sluice.CalendarDay, Opened: true}, "Opened", ""},
		{sluice.FixedWindow{Rate: r, Zone: time.UTC}, "Zone", ""},
		{sluice.FixedWindow{Calendar: sluice.CalendarDay}, "Rate", ""},
		{sluice.SlidingWindow{}, "Rate", ""},
		{sluice.SlidingWindow{Rate: r, Cells: -1}, "Cells", ""},
		{sluice.SlidingWindow{Rate: r, Cells: 257}, "Cells", ""},
		{sluice.SlidingWindow{Rate: sluice.PerSecond(1), Cells: 7}, "Cells", ""},
		{sluice.SlidingCounter{}, "Rate", ""},
		{sluice.SlidingCounter{Rate: sluice.PerDay(1 << 39)}, "Rate", "549755813887/d"},
		{sluice.SlidingCounter{Rate: sluice.Per(3, 500*time.Microsecond)}, "Rate", "6/ms"},
		{sluice.SlidingCounter{Rate: sluice.Per(1<<40, time.Microsecond)}, "Rate", "549755813887/ms"},
		{sluice.SlidingLog{}, "Rate", ""},
		{sluice.SlidingLog{Rate: sluice.PerDay(65_537)}, "Rate", "65536/d"},
		{sluice.SlidingLog{Rate: r, MinInterval: -1}, "MinInterval", ""},
		{sluice.SlidingLog{Rate: r, MinInterval: time.Minute + time.Microsecond}, "MinInterval", ""},
		{sluice.SlidingLog{Rate: r, MinInterval: 1}, "MinInterval", ""},
		{sluice.Concurrency{}, "Max", ""},
		{sluice.Concurrency{Max: -1}, "Max", ""},
		{sluice.Concurrency{Max: 65_537}, "Max", ""},
		{sluice.Concurrency{Max: 1, Queue: 65_536}, "Queue", ""},
		{sluice.Concurrency{Max: 1, Queue: -1}, "Queue", ""},
		{sluice.Concurrency{Max: 1, TTL: time.Microsecond}, "TTL", ""},
		{sluice.Concurrency{Max: 1, TTL: 31 * 24 * time.Hour}, "TTL", ""},
		{sluice.Concurrency{Max: 1, Latency: -1}, "Latency", ""},
	} {
		_, err := sluice.NewLimit("api", step.algorithm)
		var bad *sluice.LimitError
		if !errors.As(err, &bad) {
			t.Errorf("%v was not refused with a *LimitError: %v", step.algorithm, err)
			continue
		}
		if bad.Field != step.field || bad.Limit != "api" || bad.Problem == "" {
			t.Errorf("%v: %v, want one about %s", step.algorithm, err, step.field)
		}
		if !strings.HasPrefix(err.Error(), `sluice: limit "api": `+step.field+" ") {
			t.Errorf("%v: %v does not begin with the name", step.algorithm, err)
		}
		switch {
		case step.nearest == "" && !bad.Nearest.IsZero(), step.nearest != "" && bad.Nearest.String() != step.nearest:
			t.Errorf("%v: the nearest rate is %v, want %s", step.algorithm, bad.Nearest, step.nearest)
		case step.nearest != "" && !strings.Contains(err.Error(), step.nearest):
			t.Errorf("%v: %v does not name %s", step.algorithm, err, step.nearest)
		}
	}
	if _, err := sluice.NewLimit("", sluice.TokenBucket{}); err == nil || !strings.HasPrefix(err.Error(), "sluice: limit: Rate ") {
		t.Errorf("an unnamed limit: %v", err)
	}
}

// TestNearestIsAccepted: the rate that an error names is accepted, and no accepted rate is a unit
// nearer.
func TestNearestIsAccepted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	units := func() int64 { return 1 + r.Int64N(1<<r.IntN(53)) }
	period := func() time.Duration {
		// Use multiples of milliseconds and longer, so that count and period can share factors.
		return time.Duration(1+r.Int64N(400)) * []time.Duration{
			time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour,
		}[r.IntN(5)]
	}
	refused := 0
	for range soak.Times(t, 300) {
		p, n, burst := period(), units(), units()
		for _, with := range []func(sluice.Rate) sluice.Algorithm{
			func(r sluice.Rate) sluice.Algorithm { return sluice.TokenBucket{Rate: r, Burst: burst} },
			func(r sluice.Rate) sluice.Algorithm { return sluice.TokenBucket{Rate: r} },
			func(r sluice.Rate) sluice.Algorithm { return sluice.TokenBucket{Rate: r, Debt: burst} },
			func(r sluice.Rate) sluice.Algorithm { return sluice.LeakyBucket{Rate: r, Queue: burst - 1} },
			func(r sluice.Rate) sluice.Algorithm { return sluice.SlidingCounter{Rate: r} },
			func(r sluice.Rate) sluice.Algorithm { return sluice.SlidingLog{Rate: r} },
		} {
			_, err := sluice.NewLimit("", with(sluice.Per(n, p)))
			var bad *sluice.LimitError
			if err == nil || errors.As(err, &bad) && bad.Nearest.IsZero() {
				if err != nil {
					t.Fatalf("%v names no nearest rate", err)
				}
				continue
			}
			refused++
			if _, again := sluice.NewLimit("", with(bad.Nearest)); again != nil {
				t.Fatalf("%v, but %v", err, again)
			}
			apart := max(n-bad.Nearest.Count(), bad.Nearest.Count()-n)
			for _, near := range []int64{n - apart + 1, n + apart - 1} {
				if near < 1 || apart < 2 {
					continue
				}
				if _, err := sluice.NewLimit("", with(sluice.Per(near, p))); err == nil && near != bad.Nearest.Count() {
					t.Fatalf("%v is nearer to %d than %v", near, n, bad.Nearest)
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d were refused", refused)
	}
}

// TestDefaultCellsDivideThePeriod: the default number of cells divides the period.
func TestDefaultCellsDivideThePeriod(t *testing.T) {
	for _, step := range []struct {
		period time.Duration
		cells  int64
	}{
		{time.Second, 10},
		{7 * time.Microsecond, 1}, // no number of cells from 10 on divides it
		{11 * time.Microsecond, 11},
		{77 * time.Microsecond, 11},
		{257 * time.Microsecond, 1},
		{26 * time.Microsecond, 13},
	} {
		l := sluice.MustLimit("", sluice.SlidingWindow{Rate: sluice.Per(5, step.period)})
		if got := l.Params().Cells.Cells; got != step.cells {
			t.Errorf("%v has %d cells, want %d", step.period, got, step.cells)
		}
	}
}
