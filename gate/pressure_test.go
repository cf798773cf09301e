package gate_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

func near(got, want, within float64) bool { return math.Abs(got-want) <= within*math.Max(want, 0.01) }

// Pressure is the last window's demand divided by what the limit allows in it. Denied requests
// count too.
func TestPressureIsTheDemandOfAWindow(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  policy.Rule
		every time.Duration
		keys  int
		want  float64
	}{
		{"half", policy.Rule{Limits: limit(sluice.TokenBucket{Rate: sluice.PerSecond(10)})}, 200 * time.Millisecond, 1, 0.5},
		{"twice", policy.Rule{Limits: limit(sluice.TokenBucket{Rate: sluice.PerSecond(10)})}, 50 * time.Millisecond, 1, 2},
		{"a cost", policy.Rule{Limits: limit(sluice.FixedWindow{Rate: sluice.PerSecond(10)}), Cost: policy.Cost{Units: 3}}, 100 * time.Millisecond, 1, 3},
		{"each of ten keys", policy.Rule{Limits: limit(sluice.SlidingWindow{Rate: sluice.PerSecond(1)})}, 50 * time.Millisecond, 10, 2},
		{"each of a thousand keys", policy.Rule{Limits: limit(sluice.SlidingCounter{Rate: sluice.Every(10 * time.Second)})}, 10 * time.Millisecond, 1000, 1},
		{"all keys together", policy.Rule{Limits: limit(sluice.SlidingCounter{Rate: sluice.PerSecond(10)}), Key: []policy.Part{policy.Global()}}, 50 * time.Millisecond, 10, 2},
		{"the greater of two", policy.Rule{Limits: []*sluice.Limit{
			sluice.MustLimit("a", sluice.TokenBucket{Rate: sluice.PerSecond(10)}), sluice.MustLimit("b", sluice.LeakyBucket{Rate: sluice.PerSecond(40)}),
		}}, 50 * time.Millisecond, 1, 2},
		{"in shadow", policy.Rule{Limits: limit(sluice.SlidingLog{Rate: sluice.PerSecond(10)}), Shadow: true}, 50 * time.Millisecond, 1, 2},
		{"calendar", policy.Rule{Limits: limit(sluice.FixedWindow{Rate: sluice.PerDay(8640), Calendar: sluice.CalendarDay})}, time.Second, 1, 30.0 / 8640},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.rule.Name = "r"
			e := newEdge(t, bubbleStore(t), gate.Options{}, c.rule)
			if got := e.gate.Pressure("r"); got != 0 {
				t.Errorf("%s: %v before any request", c.name, got)
			}
			end := time.Now().Add(30 * time.Second)
			for i := 0; time.Now().Before(end); i++ {
				v := e.decide(t.Context(), fmt.Sprint(i%c.keys))
				v.Delay = 0
				for j := range v.Results {
					v.Results[j].Decision.Delay = 0 // no request waits here
				}
				admission, _ := e.gate.Enter(t.Context(), &v)
				admission.Leave(t.Context(), status(200))
				<-time.After(c.every)
			}
			if got := e.gate.Pressure("r"); !near(got, c.want, 0.05) {
				t.Errorf("%s: %v; want %v", c.name, got, c.want)
			}
			<-time.After(5 * time.Second)
			half := c.want / 2
			if c.name == "calendar" {
				half = c.want // its window is a day
			}
			if got := e.gate.Pressure("r"); !near(got, half, 0.1) {
				t.Errorf("%s: %v after half a window; want %v", c.name, got, half)
			}
			<-time.After(49 * time.Hour)
			if got := e.gate.Pressure("r"); got != 0 {
				t.Errorf("%s: %v after the window", c.name, got)
			}
		})
	}
}

// Pressure follows the clock of the options: time passes for it when that clock goes on, and not when it goes back.
func TestPressureByAnotherClock(t *testing.T) {
	now := int64(1_800_000_000_000_000)
	e := newEdge(t, bubbleStore(t), gate.Options{Clock: func() int64 { return now }}, policy.Rule{
		Name: "r", Key: []policy.Part{policy.Global()}, Limits: limit(sluice.FixedWindow{Rate: sluice.PerSecond(10)}),
	})
	for _, step := range []struct {
		to       int64 // microseconds
		requests int
		want     float64
	}{{0, 100, 1}, {-5_000_000, 100, 2}, {9_000_000, 0, 2}, {10_500_000, 0, 1}, {25_000_000, 0, 0}, {31_000_000, 50, 0.5}} {
		now = 1_800_000_000_000_000 + step.to
		for range step.requests {
			v := e.decide(t.Context(), "a")
			e.gate.Observe(&v)
		}
		if got := e.gate.Pressure("r"); !near(got, step.want, 0.01) {
			t.Errorf("at %d the pressure is %v, want %v", step.to, got, step.want)
		}
	}
}

// A verdict that another program carries out counts for the pressure too.
func TestPressureOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{Window: time.Second}, policy.Rule{Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerSecond(4)})})
		for range 3 {
			v := e.decide(t.Context(), "a")
			e.gate.Observe(&v)
			e.enter(t.Context(), "a")
		}
		if got := e.gate.Pressure("r"); !near(got, 1.5, 1e-6) {
			t.Errorf("6 requests of 4 allowed: the pressure is %v", got)
		}
	})
}

// The pressure on a concurrency limit counts requests in flight, waiting and refused.
func TestPressureOnLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{
			Name: "r", Limits: limit(sluice.Concurrency{Max: 2, Queue: 2, Latency: time.Second}), Key: []policy.Part{policy.Global()},
		})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var got []float64
		for range 6 {
			e.begin(ctx, "a")
			got = append(got, e.gate.Pressure("r"))
		}
		// The means of 1, 2, 3, 4, 5 and 5 units of 2.
		if s := fmt.Sprintf("%.2f", got); s != "[0.50 0.75 1.00 1.25 1.50 1.67]" {
			t.Errorf("got %s", s)
		}
		leave()
		synctest.Wait()
	})
}

// One of several processes measures demand against its share of the limit.
func TestPressureOfAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{Share: sluice.Share{Of: 1, Parts: 4}, Window: time.Second}, policy.Rule{Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerSecond(8)})})
		for range 4 {
			e.enter(t.Context(), "a")
		}
		if got := e.gate.Pressure("r"); !near(got, 2, 1e-6) {
			t.Errorf("4 requests of 2 allowed: the pressure is %v", got)
		}
	})
}

// Pressure survives a change of policy. New numbers count from the change on.
func TestPressureAcrossPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, policy.Rule{Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerSecond(1)})})
		for range 10 {
			e.enter(t.Context(), "a")
		}
		other := newEdge(t, e.store, gate.Options{}, policy.Rule{Name: "r", Limits: limit(sluice.FixedWindow{Rate: sluice.PerSecond(10)})})
		e.rules = other.rules
		for range 10 {
			e.enter(t.Context(), "a")
		}
		if got := e.gate.Pressure("r"); !near(got, 1.1, 1e-6) {
			t.Errorf("got %v", got)
		}
	})
}

// When there are many rules, the gate forgets rules that no longer match requests.
func TestPressureIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := gate.New(nil, gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})
		ask := func(name string) {
			v := policy.Verdict{Results: []policy.LimitResult{{
				Rule: &policy.Rule{Name: name, Key: []policy.Part{policy.Global()}}, Request: sluice.Request{Limit: l, Cost: 10},
				Decision: sluice.Decision{Allowed: true},
			}}}
			if _, err := g.Enter(t.Context(), &v); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 4 {
			for i := range 1000 {
				ask(fmt.Sprint(round, "-", i))
			}
			<-time.After(time.Minute)
		}
		if n := gate.MeasuredRules(g); n > 2048 {
			t.Errorf("%d rules are measured", n)
		}
	})
}

// Pressure is safe for concurrent use.
func TestPressureIsSafe(t *testing.T) {
	e := newEdge(t, bubbleStore(t), gate.Options{Window: 10 * time.Millisecond}, policy.Rule{Name: "r", Limits: limit(sluice.TokenBucket{Rate: sluice.PerSecond(1000)})})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 5000 {
				e.enter(context.Background(), fmt.Sprint(i))
				if p := e.gate.Pressure("r"); p < 0 || math.IsNaN(p) || math.IsInf(p, 0) {
					t.Errorf("pressure %v", p)
				}
			}
		})
	}
	all.Wait()
	if e.gate.Pressure("r") == 0 {
		t.Error("no pressure")
	}
}

// A rule that matches from a pressure on matches at exactly that pressure.
func TestPressureReachesItsRatio(t *testing.T) {
	for capacity := int64(2); capacity <= 30; capacity++ {
		synctest.Test(t, func(t *testing.T) {
			rule := policy.Rule{Name: "r", Key: []policy.Part{policy.Global()}, Limits: limit(sluice.FixedWindow{Rate: sluice.PerMinute(capacity)})}
			e := newEdge(t, bubbleStore(t), gate.Options{}, rule)
			for requests := int64(1); requests <= 2*capacity; requests++ {
				v := e.decide(t.Context(), "k")
				e.gate.Observe(&v)
				want := float64(requests) / float64(capacity)
				if got := e.gate.Pressure("r"); got < want || got > want+1e-9 {
					t.Fatalf("%d of %d: the pressure is %v; want %v", requests, capacity, got, want)
				}
			}
		})
	}
}
