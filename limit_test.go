package sluice_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// rate parses a valid rate.
func rate(tb testing.TB, text string) sluice.Rate {
	tb.Helper()
	r, err := sluice.ParseRate(text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

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

// TestLargestBuckets: if a burst leaves little room for a debt, the default debt takes that room.
func TestLargestBuckets(t *testing.T) {
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
			t.Errorf("%v: %v", step.algorithm, err)
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
	for range 1000 {
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

func TestLimit(t *testing.T) {
	named := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	unnamed := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	same := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	other := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 21})
	if named.Name() != "api" || named.String() != "api: token_bucket(100/m burst=20)" || named.Capacity() != 20 {
		t.Errorf("%q is %q of %d", named.Name(), named, named.Capacity())
	}
	if unnamed.Name() != "token_bucket(100/m burst=20)" || unnamed.String() != unnamed.Name() {
		t.Errorf("an unnamed limit is %q, %q", unnamed.Name(), unnamed)
	}
	if unnamed.ID() != same.ID() || unnamed.ID() == other.ID() || unnamed.ID() == named.ID() {
		t.Error("limits differ by more or less than their names")
	}
	if !named.IsNamed() || unnamed.IsNamed() {
		t.Error("only the first limit has a name of its own")
	}
	for _, step := range []struct {
		algorithm sluice.Algorithm
		text      string
		capacity  int64
	}{
		{sluice.TokenBucket{Rate: rate(t, "5/s")}, "token_bucket(5/s)", 5},
		{sluice.TokenBucket{Rate: rate(t, "5/s"), Debt: 3, WarmUp: time.Second, ColdFactor: 4}, "token_bucket(5/s debt=3 warm_up=1s cold_factor=4)", 5},
		{sluice.LeakyBucket{Rate: rate(t, "5/s"), Queue: 7, Undelayed: 2}, "leaky_bucket(5/s queue=7 undelayed=2)", 8},
		{sluice.FixedWindow{Rate: rate(t, "5/s"), Opened: true}, "fixed_window(5/s starts=first_request)", 5},
		{sluice.FixedWindow{Rate: rate(t, "5/s"), Calendar: sluice.CalendarMonth}, "fixed_window(5/month zone=UTC)", 5},
		{sluice.SlidingWindow{Rate: rate(t, "5/s"), Cells: 4}, "sliding_window(5/s cells=4)", 5},
		{sluice.SlidingCounter{Rate: rate(t, "5/s")}, "sliding_counter(5/s)", 5},
		{sluice.FixedWindow{Rate: rate(t, "5/s"), CountDenied: true}, "fixed_window(5/s count_denied=true)", 5},
		{sluice.FixedWindow{Rate: rate(t, "5/s"), Calendar: sluice.CalendarDay, CountDenied: true}, "fixed_window(5/day zone=UTC count_denied=true)", 5},
		{sluice.SlidingWindow{Rate: rate(t, "5/s"), CountDenied: true}, "sliding_window(5/s count_denied=true)", 5},
		{sluice.SlidingCounter{Rate: rate(t, "5/s"), CountDenied: true}, "sliding_counter(5/s count_denied=true)", 5},
		{sluice.SlidingLog{Rate: rate(t, "5/s"), MinInterval: time.Millisecond, CountDenied: true}, "sliding_log(5/s min_interval=1ms count_denied=true)", 5},
		{sluice.Concurrency{Max: 3, Queue: 2, TTL: time.Second, Latency: time.Millisecond}, "concurrency(max=3 queue=2 ttl=1s latency=1ms)", 5},
	} {
		l := sluice.MustLimit("", step.algorithm)
		if l.Name() != step.text || l.Capacity() != step.capacity {
			t.Errorf("%q of %d, want %q of %d", l.Name(), l.Capacity(), step.text, step.capacity)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustLimit made a limit of nothing")
		}
	}()
	sluice.MustLimit("", sluice.TokenBucket{})
}

// TestLimitDefaults: a limit has the defaults filled in, and is the same limit as one for which
// they were written out.
func TestLimitDefaults(t *testing.T) {
	const most = algo.MaxUnits
	for _, step := range []struct {
		given, want sluice.Algorithm
		name        string
	}{
		{
			sluice.TokenBucket{Rate: rate(t, "5/s")},
			sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 5, Debt: 5}, "token_bucket(5/s)",
		},
		{
			sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 7, WarmUp: time.Second},
			sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 7, Debt: 7, WarmUp: time.Second, ColdFactor: 3}, "token_bucket(5/s burst=7 warm_up=1s)",
		},
		{
			sluice.TokenBucket{Rate: sluice.Per(most, time.Microsecond)},
			sluice.TokenBucket{Rate: sluice.Per(most, time.Microsecond), Burst: most - 1, Debt: 1},
			fmt.Sprintf("token_bucket(%d/us)", int64(most)),
		},
		{
			sluice.LeakyBucket{Rate: rate(t, "5/s")},
			sluice.LeakyBucket{Rate: rate(t, "5/s")}, "leaky_bucket(5/s)",
		},
		{
			sluice.FixedWindow{Rate: rate(t, "5/s"), Calendar: sluice.CalendarWeek},
			sluice.FixedWindow{Rate: rate(t, "5/w"), Calendar: sluice.CalendarWeek, Zone: time.UTC}, "fixed_window(5/week zone=UTC)",
		},
		{
			sluice.SlidingWindow{Rate: rate(t, "5/m")},
			sluice.SlidingWindow{Rate: rate(t, "5/m"), Cells: 10}, "sliding_window(5/m)",
		},
		{
			sluice.SlidingCounter{Rate: rate(t, "5/m")},
			sluice.SlidingCounter{Rate: rate(t, "5/m")}, "sliding_counter(5/m)",
		},
		{
			sluice.SlidingLog{Rate: rate(t, "5/m")},
			sluice.SlidingLog{Rate: rate(t, "5/m")}, "sliding_log(5/m)",
		},
		{
			sluice.Concurrency{Max: 5},
			sluice.Concurrency{Max: 5, TTL: time.Minute}, "concurrency(max=5)",
		},
		{
			sluice.Concurrency{Max: 5, Queue: 2},
			sluice.Concurrency{Max: 5, Queue: 2, TTL: time.Minute, Latency: 100 * time.Millisecond}, "concurrency(max=5 queue=2)",
		},
	} {
		short, long := sluice.MustLimit("", step.given), sluice.MustLimit("", step.want)
		if short.Algorithm() != step.want || long.Algorithm() != step.want {
			t.Errorf("%v is %+v, and written out %+v, want %+v", step.given, short.Algorithm(), long.Algorithm(), step.want)
		}
		if short.Name() != step.name || long.Name() != step.name || short.ID() != long.ID() {
			t.Errorf("%q and %q, want both %q", short.Name(), long.Name(), step.name)
		}
		if fmt.Sprint(short.Params()) != fmt.Sprint(long.Params()) && short.Params().Fixed.Calendar == nil {
			t.Errorf("%v: %+v and %+v", short, short.Params(), long.Params())
		}
	}
}

// TestTwoSpellingsShareState charges one key under a limit and under the same limit with
// its defaults written out.
func TestTwoSpellingsShareState(t *testing.T) {
	b := newBench(t, sluice.TokenBucket{Rate: sluice.PerDay(10)})
	if _, err := b.AllowN(b.Context(), b.key, 4); err != nil {
		t.Fatal(err)
	}
	if err := b.SetLimit(sluice.MustLimit("test", sluice.TokenBucket{Rate: sluice.PerDay(10), Burst: 10, Debt: 10})); err != nil {
		t.Fatal(err)
	}
	b.remain(6)
}

// TestLimitReports checks what a limit reports about its algorithm.
func TestLimitReports(t *testing.T) {
	const longest = 100 * 365 * 24 * time.Hour
	for _, step := range []struct {
		algorithm sluice.Algorithm
		rate      string
		full      time.Duration
		ttl       time.Duration
		delays    bool
	}{
		{sluice.TokenBucket{Rate: rate(t, "5/s")}, "5/s", time.Second, 0, false},
		{sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 12}, "5/s", 2400 * time.Millisecond, 0, false},
		{sluice.TokenBucket{Rate: rate(t, "3/s"), Burst: 1}, "3/s", 333_333_334, 0, false},
		{sluice.TokenBucket{Rate: rate(t, "5/s"), WarmUp: time.Second}, "5/s", time.Second, 0, false},
		{sluice.TokenBucket{Rate: sluice.Every(longest), Burst: 3}, "1/36500d", 1<<63 - 1, 0, false},
		{sluice.TokenBucket{Rate: sluice.Every(longest), Burst: 1 << 9}, "1/36500d", 1<<63 - 1, 0, false},
		{sluice.LeakyBucket{Rate: rate(t, "5/s")}, "5/s", 200 * time.Millisecond, 0, false},
		{sluice.LeakyBucket{Rate: rate(t, "5/s"), Queue: 9, Undelayed: 9}, "5/s", 2 * time.Second, 0, false},
		{sluice.LeakyBucket{Rate: rate(t, "5/s"), Queue: 9, Undelayed: 8}, "5/s", 2 * time.Second, 0, true},
		{sluice.FixedWindow{Rate: rate(t, "5/m")}, "5/m", time.Minute, 0, false},
		{sluice.FixedWindow{Rate: rate(t, "5/m"), Calendar: sluice.CalendarDay}, "5/d", 24 * time.Hour, 0, false},
		{sluice.FixedWindow{Rate: rate(t, "5/m"), Calendar: sluice.CalendarWeek}, "5/w", 7 * 24 * time.Hour, 0, false},
		{sluice.FixedWindow{Rate: rate(t, "5/m"), Calendar: sluice.CalendarMonth}, "5/30d", 30 * 24 * time.Hour, 0, false},
		{sluice.SlidingWindow{Rate: rate(t, "5/m")}, "5/m", time.Minute, 0, false},
		{sluice.SlidingCounter{Rate: rate(t, "5/m")}, "5/m", time.Minute, 0, false},
		{sluice.SlidingLog{Rate: rate(t, "5/m")}, "5/m", time.Minute, 0, false},
		{sluice.Concurrency{Max: 5}, "", 0, time.Minute, false},
		{sluice.Concurrency{Max: 5, Queue: 1, TTL: time.Second}, "", 0, time.Second, true},
	} {
		l, text := sluice.MustLimit("", step.algorithm), ""
		if !l.Rate().IsZero() {
			text = l.Rate().String()
		}
		if text != step.rate || l.TimeToFull() != step.full {
			t.Errorf("%v: rate %q, full after %v; want %q, %v", l, text, l.TimeToFull(), step.rate, step.full)
		}
		if l.LeaseTTL() != step.ttl || l.IsConcurrency() != (step.ttl > 0) || l.Delays() != step.delays {
			t.Errorf("%v: leases %v for %v, delays %v", l, l.IsConcurrency(), l.LeaseTTL(), l.Delays())
		}
	}
}

// TestDelays: without a MaxWait, a limit allows a request with a delay only if Delays is true.
func TestDelays(t *testing.T) {
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: rate(t, "5/h"), Burst: 2},
		sluice.TokenBucket{Rate: rate(t, "5/h"), Burst: 2, WarmUp: time.Second},
		sluice.LeakyBucket{Rate: rate(t, "5/h")},
		sluice.LeakyBucket{Rate: rate(t, "5/h"), Queue: 2},
		sluice.LeakyBucket{Rate: rate(t, "5/h"), Queue: 2, Undelayed: 1},
		sluice.LeakyBucket{Rate: rate(t, "5/h"), Queue: 2, Undelayed: 2},
		sluice.FixedWindow{Rate: rate(t, "5/h"), Opened: true},
		sluice.SlidingWindow{Rate: rate(t, "5/h")},
		sluice.SlidingCounter{Rate: rate(t, "5/h")},
		sluice.SlidingLog{Rate: rate(t, "5/h"), MinInterval: time.Second},
		sluice.Concurrency{Max: 2},
		sluice.Concurrency{Max: 2, Queue: 2},
	} {
		store, l := newStore(), sluice.MustLimit("", a)
		delayed := false
		for member := range uint64(8) {
			d, err := store.Decide(t.Context(), sluice.Request{Limit: l, Cost: 1, Member: member + 1})
			if err != nil {
				t.Fatal(err)
			}
			delayed = delayed || d.Delay > 0
		}
		if delayed != l.Delays() {
			t.Errorf("%v: delayed a request: %v, but Delays is %v", l, delayed, l.Delays())
		}
	}
}

// TestLimitIDs: an ID identifies name and algorithm, whatever the numbers; a NameID identifies
// only the name.
func TestLimitIDs(t *testing.T) {
	algorithms := []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(5)},
		sluice.TokenBucket{Rate: sluice.PerSecond(5), WarmUp: time.Second},
		sluice.LeakyBucket{Rate: sluice.PerSecond(5)},
		sluice.FixedWindow{Rate: sluice.PerSecond(5)},
		sluice.SlidingWindow{Rate: sluice.PerSecond(5)},
		sluice.SlidingCounter{Rate: sluice.PerSecond(5)},
		sluice.SlidingLog{Rate: sluice.PerSecond(5)},
		sluice.Concurrency{Max: 5},
	}
	ids := make(map[[2]uint64]string)
	for _, name := range []string{"a", "b"} {
		for _, a := range algorithms {
			l := sluice.MustLimit(name, a)
			if other, ok := ids[l.ID()]; ok {
				t.Errorf("%v has the ID of %s", l, other)
			}
			ids[l.ID()] = l.String()
			first := sluice.MustLimit(name, algorithms[0])
			if l.NameID() != first.NameID() || l.ID()[0] != l.NameID()[0] {
				t.Errorf("%v: %x is not under the name of %v, %x", l, l.ID(), first, l.NameID())
			}
		}
	}
	for _, a := range []sluice.Algorithm{
		sluice.FixedWindow{Rate: sluice.PerDay(9), Calendar: sluice.CalendarWeek}, sluice.FixedWindow{Rate: sluice.PerHour(1), Opened: true},
	} {
		if l := sluice.MustLimit("a", a); ids[l.ID()] != "a: fixed_window(5/s)" {
			t.Errorf("%v has another ID than a window of other numbers", l)
		}
	}
	if a, b := sluice.MustLimit("a", algorithms[0]), sluice.MustLimit("b", algorithms[0]); a.NameID() == b.NameID() {
		t.Error("two names have one ID")
	}
}

// TestCells: the default number of cells divides the period.
func TestCells(t *testing.T) {
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
