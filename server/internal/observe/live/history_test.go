package live

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// counted are the counters of rules.
type counted map[string]*telemetry.Totals

func (c counted) visit(visit func(string, *telemetry.Totals)) {
	for name, t := range c {
		visit(name, t)
	}
}

// sum adds the steps of a series.
func sum(s Series) (all telemetry.Totals) {
	for _, step := range s.Steps {
		for f, n := range step {
			all[f] += uint64(n)
		}
	}
	return all
}

func TestARingFitsIn64KiB(t *testing.T) {
	if size := unsafe.Sizeof(ring{}); size > 64<<10 {
		t.Errorf("a ring has %d bytes", size)
	}
}

// TestHistoryIsExact compares histories with exact counts, for counters that are read at random times: each series has the
// requests since its beginning, and each request is in the step of the time between two reads, or in the step beside it.
func TestHistoryIsExact(t *testing.T) {
	type read struct {
		from, to time.Duration
		n        uint64
	}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 28))
		start := time.Unix(1e9, 0)
		rule := new(telemetry.Totals)
		h := NewHistory(counted{"rule": rule}.visit, start)
		var reads []read
		var at time.Duration
		for range 1 + r.IntN(900) {
			from := at
			at += time.Duration(r.Int64N(int64(60 * time.Second)))
			if r.IntN(100) == 0 {
				at += time.Duration(r.Int64N(int64(30 * time.Hour)))
			}
			n := uint64(r.IntN(100))
			rule[r.IntN(telemetry.Figures)] += n
			h.Sample(start.Add(at))
			reads = append(reads, read{from, at, n})
		}
		for span := range spans {
			series, _ := h.Of("rule", span, start.Add(at))
			end := series.End.Sub(start)
			began := end - time.Duration(len(series.Steps))*series.Step
			var least, most uint64
			for _, x := range reads {
				if middle := (x.from + x.to) / 2; middle >= began {
					least += x.n
				}
				if x.to >= began {
					most += x.n
				}
			}
			all := sum(series)
			var got uint64
			for _, n := range all {
				got += n
			}
			if got < least || got > most {
				t.Fatalf("seed %d: the series of a %s has %d requests, want %d to %d", seed, SpanNames[span], got, least, most)
			}
			for i, step := range series.Steps {
				from, to := began+time.Duration(i)*series.Step, began+time.Duration(i+1)*series.Step
				var want, got uint64
				for _, x := range reads {
					if middle := (x.from + x.to) / 2; middle >= from && middle < to {
						want += x.n
					}
				}
				for _, n := range step {
					got += uint64(n)
				}
				if got != want {
					t.Fatalf("seed %d: step %d of the series of a %s has %d requests, want %d", seed, i, SpanNames[span], got, want)
				}
			}
		}
	}
}

// The history follows a clock that is set back, counters that begin again, and rules that come and go.
func TestHistoryOfChanges(t *testing.T) {
	now := time.Unix(1e9, 0)
	rules := counted{"a": {5}}
	h := NewHistory(rules.visit, now)
	for _, step := range []struct {
		after time.Duration
		do    func()
		want  uint64 // requests of rule a in the hour
		known bool
	}{
		{0, func() {}, 5, true},
		{10 * time.Second, func() { rules["a"][0] = 7 }, 7, true},
		{-time.Hour, func() { rules["a"][0] = 8 }, 8, true},
		{time.Hour, func() { rules["a"] = &telemetry.Totals{2} }, 10, true}, // a reload took the rule and gave it back
		{10 * time.Second, func() { delete(rules, "a") }, 0, false},
		{10 * time.Second, func() { rules["a"] = &telemetry.Totals{1} }, 1, true},
		{2 * time.Hour, func() {}, 0, true},
	} {
		now = now.Add(step.after)
		step.do()
		h.Sample(now)
		series, known := h.Of("a", Hour, now)
		if got := sum(series)[0]; got != step.want || known != step.known || (h.rings["a"] != nil) != known {
			t.Errorf("at %v: the history has %d requests (%t), want %d (%t)", now, got, known, step.want, step.known)
		}
	}
}

// A clock that is set back is counted; one that is set forward, or slowed down a little, is not.
func TestClockSetBack(t *testing.T) {
	var c clock
	for _, step := range []struct {
		steady, wall time.Duration
		want         uint64
	}{
		{10 * time.Second, 10 * time.Second, 0},
		{20 * time.Second, 19500 * time.Millisecond, 0},
		{30 * time.Second, -time.Hour, 1},
		{40 * time.Second, -time.Hour + 10*time.Second, 1},
		{50 * time.Second, 24 * time.Hour, 1},
		{60 * time.Second, 24*time.Hour + 8*time.Second, 2},
	} {
		c.compare(step.steady, step.wall)
		if c.setBack != step.want {
			t.Errorf("after %v, the clock shows %v, and was set back %d times, want %d", step.steady, step.wall, c.setBack, step.want)
		}
	}
}

// However many rules there are, the rings are bounded. A rule without requests for an hour gives way.
func TestRingsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	rules := counted{}
	h := NewHistory(rules.visit, now)
	for i := range 3 * mostRings {
		rules[fmt.Sprint(i)] = &telemetry.Totals{1}
	}
	h.Sample(now)
	if len(h.rings) != mostRings {
		t.Errorf("%d rules have a ring", len(h.rings))
	}
	if series, _ := h.Of("", Hour, now); sum(series)[0] != mostRings {
		t.Errorf("the sum of all rules has %d requests, want one of each of %d rules", sum(series)[0], mostRings)
	}
	now = now.Add(idle + time.Minute)
	rules["new"] = &telemetry.Totals{3}
	h.Sample(now.Add(-10 * time.Second))
	now = now.Add(10 * time.Second)
	rules["new"][0]++
	h.Sample(now)
	if series, known := h.Of("new", Hour, now); !known || sum(series)[0] == 0 || len(h.rings) != mostRings {
		t.Errorf("a rule does not get the ring of an idle one: %v, %v", known, sum(series))
	}
}

// BenchmarkSample measures a sample of the counters of many rules, whose requests grow between two samples.
func BenchmarkSample(b *testing.B) {
	rules := counted{}
	for i := range 1000 {
		rules[fmt.Sprint(i)] = &telemetry.Totals{}
	}
	now := time.Unix(1e9, 0)
	h := NewHistory(rules.visit, now)
	for b.Loop() {
		for _, t := range rules {
			t[0]++
		}
		now = now.Add(10 * time.Second)
		h.Sample(now)
	}
}
