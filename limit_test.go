package sluice_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
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

// A limit without a name is identified by its numbers.
func TestNamelessLimitsHaveTheirNumbers(t *testing.T) {
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
			sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 5, Debt: 5},
			"token_bucket(5/s)",
		},
		{
			sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 7, WarmUp: time.Second},
			sluice.TokenBucket{Rate: rate(t, "5/s"), Burst: 7, Debt: 7, WarmUp: time.Second, ColdFactor: 3},
			"token_bucket(5/s burst=7 warm_up=1s)",
		},
		{
			sluice.TokenBucket{Rate: sluice.Per(most, time.Microsecond)},
			sluice.TokenBucket{Rate: sluice.Per(most, time.Microsecond), Burst: most - 1, Debt: 1},
			fmt.Sprintf("token_bucket(%d/us)", int64(most)),
		},
		{
			sluice.LeakyBucket{Rate: rate(t, "5/s")},
			sluice.LeakyBucket{Rate: rate(t, "5/s")},
			"leaky_bucket(5/s)",
		},
		{
			sluice.FixedWindow{Rate: rate(t, "5/s"), Calendar: sluice.CalendarWeek},
			sluice.FixedWindow{Rate: rate(t, "5/w"), Calendar: sluice.CalendarWeek, Zone: time.UTC},
			"fixed_window(5/week zone=UTC)",
		},
		{
			sluice.SlidingWindow{Rate: rate(t, "5/m")},
			sluice.SlidingWindow{Rate: rate(t, "5/m"), Cells: 10},
			"sliding_window(5/m)",
		},
		{
			sluice.SlidingCounter{Rate: rate(t, "5/m")},
			sluice.SlidingCounter{Rate: rate(t, "5/m")},
			"sliding_counter(5/m)",
		},
		{
			sluice.SlidingLog{Rate: rate(t, "5/m")},
			sluice.SlidingLog{Rate: rate(t, "5/m")},
			"sliding_log(5/m)",
		},
		{
			sluice.Concurrency{Max: 5},
			sluice.Concurrency{Max: 5, TTL: time.Minute},
			"concurrency(max=5)",
		},
		{
			sluice.Concurrency{Max: 5, Queue: 2},
			sluice.Concurrency{Max: 5, Queue: 2, TTL: time.Minute, Latency: 100 * time.Millisecond},
			"concurrency(max=5 queue=2)",
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

// TestDelaysNeedConsent: without a MaxWait, a limit allows a request with a delay only if Delays is true.
func TestDelaysNeedConsent(t *testing.T) {
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
