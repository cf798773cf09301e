package gate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// crowd makes many requests of a rule wait at the same time.
type crowd struct {
	tb   testing.TB
	gate *gate.Gate
	rule policy.Rule
}

func newCrowd(tb testing.TB, store sluice.Store, a sluice.Algorithm) *crowd {
	tb.Helper()
	g, err := gate.New(store, gate.Options{MaxDelay: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	return &crowd{tb, g, policy.Rule{Name: "r", MaxWaiting: 1_000_000, MaxWaitingPerKey: 1_000_000, Limits: []*sluice.Limit{sluice.MustLimit("r", a)}}}
}

// enter lets a request with a delay enter the gate.
func (c *crowd) enter(key string, member uint64, delay time.Duration) {
	v := policy.Verdict{Delay: delay, Results: []policy.LimitResult{{
		Rule: &c.rule, Request: sluice.Request{Limit: c.rule.Limits[0], Key: sluice.StringKey(key), Cost: int64(min(member, 1)), Member: member},
		Decision: sluice.Decision{Allowed: true, Delay: delay, Receipt: sluice.Receipt{At: int64(member)}},
	}}}
	if _, err := c.gate.Enter(context.Background(), &v); err != nil {
		c.tb.Error(err)
	}
}

// delayed returns how long n requests with consecutive turns take, minus the time of the last
// turn.
func (c *crowd) delayed(n int) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	// All have entered before the first turn.
	first := 100*time.Millisecond + time.Duration(n)*10*time.Microsecond
	for i := range n {
		all.Go(func() { c.enter(fmt.Sprint(i%100), 0, first+time.Duration(i)*100*time.Nanosecond-time.Since(start)) })
	}
	all.Wait()
	return time.Since(start) - first
}

// doors is a store whose units become free when it opens.
type doors struct {
	sluice.Store
	open   atomic.Bool
	polled atomic.Int64
}

func (s *doors) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	s.polled.Add(1)
	d := sluice.Decision{Allowed: true}
	if !s.open.Load() {
		d.Delay = time.Millisecond
	}
	return d, nil
}

// queued returns how long it takes to wake n queued requests for their turns, and how often
// they polled.
func queued(tb testing.TB, n int) (time.Duration, int64) {
	tb.Helper()
	store := &doors{}
	c := newCrowd(tb, store, sluice.Concurrency{Max: 1, Queue: 60_000, TTL: time.Hour, Latency: time.Second})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { c.enter("all", uint64(i+1), time.Millisecond) })
	}
	for tick := time.NewTicker(time.Millisecond); c.gate.Waiting() < n; <-tick.C {
	}
	store.polled.Store(0)
	start := time.Now()
	store.open.Store(true)
	all.Wait()
	return time.Since(start), store.polled.Load()
}

// A wake-up's time does not grow with the number of waiting requests, except for the logarithm that
// timers take. If it were proportional, it would take 28 times as long.
func TestWakeUpsAreNotLinear(t *testing.T) {
	const few, many, most = 250, 7000, 10
	fastest := func(n int, f func(n int) time.Duration) time.Duration {
		least := time.Hour
		for range 3 {
			least = min(least, f(n)/time.Duration(n))
		}
		return max(least, time.Microsecond)
	}
	c := newCrowd(t, nil, sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 1000})
	for name, f := range map[string]func(n int) time.Duration{
		"delayed": c.delayed,
		"queued": func(n int) time.Duration {
			took, polled := queued(t, n)
			if polled > int64(2*n)+100 {
				t.Errorf("%d waiters polled %d times", n, polled)
			}
			return took
		},
	} {
		small, large := fastest(few, f), fastest(many, f)
		t.Logf("%s: a wake-up takes %v with %d waiting, %v with %d", name, small, few, large, many)
		if large > most*small {
			t.Errorf("%s: a wake-up takes %v with %d waiting, and %v with %d", name, small, few, large, many)
		}
	}
}

// BenchmarkDelayed delays one request among as many others as its name says.
func BenchmarkDelayed(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCrowd(b, nil, sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 1000})
			var took time.Duration
			turns := 0
			for b.Loop() {
				took += c.delayed(n)
				turns += n
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(turns), "ns/wake-up")
		})
	}
}

// BenchmarkQueued queues one request among as many others as its name says.
func BenchmarkQueued(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var took time.Duration
			turns := 0
			for b.Loop() {
				one, _ := queued(b, n)
				took += one
				turns += n
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(turns), "ns/wake-up")
		})
	}
}

// BenchmarkEnter enters a verdict of three limits. It needs nothing, so the gate only measures the pressure.
func BenchmarkEnter(b *testing.B) {
	for name, parts := range map[string][]policy.Part{"global": {policy.Global()}, "keyed": {policy.Header("X-Key")}} {
		b.Run(name, func(b *testing.B) {
			g, err := gate.New(nil, gate.Options{})
			if err != nil {
				b.Fatal(err)
			}
			var v policy.Verdict
			for i := range 3 {
				name := fmt.Sprint("rule", i)
				v.Results = append(v.Results, policy.LimitResult{
					Rule: &policy.Rule{Name: name, Key: parts}, Decision: sluice.Decision{Allowed: true},
					Request: sluice.Request{Limit: sluice.MustLimit(name, sluice.TokenBucket{Rate: sluice.PerSecond(100)}), Key: sluice.StringKey("someone"), Cost: 1},
				})
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if admission, err := g.Enter(ctx, &v); admission != nil || err != nil {
					b.Fatal(admission, err)
				}
			}
		})
	}
}

// BenchmarkPressure reads the pressure of a rule with many keys.
func BenchmarkPressure(b *testing.B) {
	g, err := gate.New(nil, gate.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rule := &policy.Rule{Name: "r", Key: []policy.Part{policy.Header("X-Key")}}
	l := sluice.MustLimit("r", sluice.TokenBucket{Rate: sluice.PerSecond(1)})
	for i := range 10_000 {
		g.Observe(&policy.Verdict{Results: []policy.LimitResult{{Rule: rule, Request: sluice.Request{Limit: l, Key: sluice.StringKey(fmt.Sprint(i)), Cost: 1}}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if p := g.Pressure("r"); p <= 0 {
			b.Fatalf("the pressure is %v, want more than 0", p)
		}
	}
}
