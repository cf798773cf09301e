package suggest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// admits reports whether a token bucket lets all requests of a trace pass.
func admits(t *testing.T, rate sluice.Rate, burst int64, times, costs []int64) bool {
	t.Helper()
	now := int64(0)
	store, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	limit := sluice.MustLimit("a", sluice.TokenBucket{Rate: rate, Burst: burst})
	for i := range times {
		now = times[i]
		d, err := store.Decide(t.Context(), sluice.Request{Limit: limit, Key: sluice.StringKey("k"), Cost: costs[i]})
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			return false
		}
	}
	return true
}

// The burst of the curve denies nobody, and one unit less denies somebody: a store decides.
func TestCurveIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 5))
	for round := range 10_000 {
		period := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}[random.IntN(4)]
		count := 1 + random.Int64N(1+random.Int64N(1000))
		rate := sluice.Per(count, period)
		c := newCurve([]int64{count, 7}, period.Microseconds())
		at, scale := int64(1_800_000_000_000_000), float64(period.Microseconds())*random.Float64()*4/float64(count)
		var times, costs []int64
		for range 1 + random.IntN(60) {
			at += int64(random.ExpFloat64() * scale)
			cost := int64(1)
			if random.IntN(3) == 0 {
				cost += random.Int64N(20)
			}
			times, costs = append(times, at), append(costs, cost)
			c.add(c.key(1), at, cost)
		}
		burst := c.bursts(0)[0]
		if !admits(t, rate, burst, times, costs) {
			t.Fatalf("round %d: a bucket of %v and %d denies a request of %v %v", round, rate, burst, times, costs)
		}
		if burst > 1 && admits(t, rate, burst-1, times, costs) {
			t.Fatalf("round %d: a bucket of %v and %d denies nothing, so %d is too large", round, rate, burst-1, burst)
		}
	}
}

// Costs that are too large to count are found, and never wrap around.
func TestLargeCosts(t *testing.T) {
	c := newCurve([]int64{1, 1_000_000}, (24 * time.Hour).Microseconds())
	key := c.key(1)
	for at := range int64(50) {
		c.add(key, at*1e15, math.MaxInt64/4)
		c.add(key, at*1e15, 10)
	}
	if got := c.bursts(0)[0]; got != math.MaxInt64 {
		t.Errorf("the burst is %d, want one that is too large", got)
	}
}

// Suggestions are 1, 2 or 5 times a power of ten, and quantiles need enough keys.
func TestNumbersThatPeopleSay(t *testing.T) {
	for n, want := range map[float64]int64{0: 1, 1: 1, 1.1: 2, 2: 2, 3: 5, 6: 10, 10: 10, 11: 20, 51: 100, 1e6: 1e6, 1e6 + 1: 2e6} {
		if got := sayable(n); got != want {
			t.Errorf("%v becomes %d, want %d", n, got, want)
		}
	}
	if needed(0.9) != 29 || needed(0.99) != 299 || needed(0.999) != 2995 {
		t.Errorf("the quantiles need %d, %d and %d keys", needed(0.9), needed(0.99), needed(0.999))
	}
}

// BenchmarkCurve measures a request. The bars are 200 ns with one rate, and 1 µs with the grid.
func BenchmarkCurve(b *testing.B) {
	for name, counts := range map[string][]int64{"one": {60}, "grid": grid} {
		b.Run(name, func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			c := newCurve(counts, time.Minute.Microseconds())
			hashes := make([]uint64, 1<<20)
			for i := range hashes {
				hashes[i] = uint64(20_000*random.Float64()*random.Float64()) * 0x9e3779b97f4a7c15
			}
			at := int64(1_800_000_000_000_000)
			for i := 0; b.Loop(); i++ {
				at += 500
				c.add(c.key(hashes[i&(1<<20-1)]), at, 1)
			}
		})
	}
}
