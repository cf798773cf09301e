package vectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice"
)

// guavaSmooth is Guava's RateLimiter.
func guavaSmooth(w *world) (stepper, error) {
	w.tolerance = 2.5e-6 // Guava rounds microseconds down, and Sluice rounds them up
	switch kind := w.v.Config.text("kind"); kind {
	case "bursty":
		return guavaBursty(w)
	case "warmup":
		return guavaWarmUp(w)
	default:
		return nil, fmt.Errorf("unknown kind: %q", kind)
	}
}

// reserve takes n permits, if the wait is not longer than longest.
type reserve func(n int64, longest time.Duration) (sluice.Decision, error)

// guavaSteps makes the calls of either kind.
func guavaSteps(w *world, take reserve, setRate func(float64) error) stepper {
	return func(s fields) (any, error) {
		switch s.text("op") {
		case "acquire":
			d, err := take(s.n(), forever)
			w.pass(d.Delay)
			return d.Delay.Seconds(), err
		case "try":
			d, err := take(s.n(), max(0, span(s.num("timeout_s", 0), time.Second)))
			w.pass(d.Delay)
			return d.Allowed, err
		case "sleep":
			w.pass(span(s.num("seconds", 0), time.Second))
			return nil, nil
		case "set_rate":
			return nil, setRate(s.num("rate", 0))
		}
		return unknown(s)
	}
}

// guavaWarmUp is SmoothWarmingUp.
func guavaWarmUp(w *world) (stepper, error) {
	c := w.v.Config
	bucket := func(rate float64) sluice.TokenBucket {
		b := sluice.TokenBucket{Rate: perSecond(rate), WarmUp: span(c.num("warmup_s", 0), time.Second), Burst: 1 << 20}
		if b.WarmUp > 0 {
			b.ColdFactor = c.count("cold_factor", 3)
		}
		return b
	}
	l, err := w.limiter("warm", bucket(c.num("rate", 0)))
	if err != nil {
		return nil, err
	}
	take := func(n int64, longest time.Duration) (sluice.Decision, error) {
		r, err := l.ReserveN(w.Context(), sluice.Key{}, n, longest)
		if err != nil {
			return sluice.Decision{}, err
		}
		return r.Decision(), nil
	}
	return guavaSteps(w, take, func(rate float64) error { return change(l, bucket(rate)) }), nil
}

// bursty is SmoothBursty: a bucket that holds the permits of one second and starts empty. A request
// waits until the bucket owes nothing, and then takes its permits, if need be as debt. Permits are
// counted in units in which all rates of the vector are whole numbers.
type bursty struct {
	*world
	*sluice.Limiter
	units int64
}

func guavaBursty(w *world) (stepper, error) {
	b := &bursty{world: w, units: 1}
	rates := []float64{w.v.Config.num("rate", 0)}
	for _, s := range w.v.Steps {
		if s.text("op") == "set_rate" {
			rates = append(rates, s.num("rate", 0))
		}
	}
	for _, r := range rates {
		if _, den, ok := ratio(r); ok && den < 1e6 {
			b.units = b.units / gcd(b.units, den) * den
		}
	}
	var err error
	if b.Limiter, err = w.limiter("bursty", b.bucket(rates[0])); err != nil {
		return nil, err
	}
	if err := b.restore(time.Second); err != nil {
		return nil, err
	}
	return guavaSteps(w, b.take, b.setRate), nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (b *bursty) bucket(rate float64) sluice.TokenBucket {
	per := sluice.Rate{}
	if a, den, ok := ratio(rate); ok && b.units%den == 0 {
		per = sluice.PerSecond(b.units / den * a)
	}
	return debtor(sluice.TokenBucket{Rate: per})
}

// take waits until the debt is paid, and then takes n permits.
func (b *bursty) take(n int64, longest time.Duration) (sluice.Decision, error) {
	r, err := b.ReserveN(b.Context(), sluice.Key{}, 0, longest)
	if err != nil || !r.OK() {
		return sluice.Decision{}, err
	}
	return r.Decision(), r.Settle(b.Context(), n*b.units)
}

// setRate changes the rate and keeps the time until the bucket is full.
func (b *bursty) setRate(rate float64) error {
	d, err := b.PeekN(b.Context(), sluice.Key{}, 0)
	if err != nil {
		return err
	}
	if err := change(b.Limiter, b.bucket(rate)); err != nil {
		return err
	}
	if err := b.Limiter.Reset(b.Context(), sluice.Key{}); err != nil {
		return err
	}
	return b.restore(d.ResetAfter)
}

// restore gives a fresh bucket the state that is full after the given time. It drains the bucket in
// the past, into a debt of whole units.
func (b *bursty) restore(full time.Duration) error {
	rate := inSecond(b.Limit().Algorithm().(sluice.TokenBucket).Rate)
	owed := max(0, math.Ceil((full-time.Second).Seconds()*rate-1e-6))
	past := b.now() + int64((full-time.Second-span(owed/rate, time.Second))/time.Microsecond)
	return b.at(past, func() error {
		r, err := b.ReserveN(b.Context(), sluice.Key{}, b.Limit().Capacity(), 0)
		if err != nil {
			return err
		}
		return r.Settle(b.Context(), b.Limit().Capacity()+int64(owed))
	})
}

// guavaParameters checks which settings and costs are refused. Sluice accepts a cost of zero, which
// Guava refuses: it takes nothing and reports what remains.
func guavaParameters(w *world) {
	for rate, ok := range map[int64]bool{1: true, 0: false, -10: false} {
		if _, err := sluice.NewLimit("r", sluice.TokenBucket{Rate: sluice.PerSecond(rate)}); (err == nil) != ok {
			w.Errorf("rate %d: %v", rate, err)
		}
	}
	for warmUp, ok := range map[time.Duration]bool{time.Second: true, 0: true, -1: false} {
		if _, err := sluice.NewLimit("r", sluice.TokenBucket{Rate: sluice.PerSecond(1), WarmUp: warmUp}); (err == nil) != ok {
			w.Errorf("warm-up %v: %v", warmUp, err)
		}
	}
	l := w.mustLimiter("r", sluice.TokenBucket{Rate: sluice.PerSecond(3)})
	if _, err := l.AllowN(w.Context(), sluice.Key{}, -1); err == nil {
		w.Error("a negative cost is not an error")
	}
	if d, err := l.AllowN(w.Context(), sluice.Key{}, 0); err != nil || d.Remaining != 3 {
		w.Errorf("a cost of zero: %+v, %v", d, err)
	}
}

// guavaWarmUpTime takes the first permits of a cold limiter, in several splits. They always take the
// warm-up time.
func guavaWarmUpTime(w *world) {
	c := w.v.Config
	rng, permits := rand.New(rand.NewPCG(20, 1)), c.count("permits", 0)
	for _, cold := range c["cold_factors"].([]any) {
		for _, qps := range c["qps"].([]any) {
			c, q := cold.(float64), qps.(float64)
			warmUp := time.Duration((1 + c) * float64(permits) / (2 * q) * float64(time.Second))
			l := w.mustLimiter(fmt.Sprintf("warm-%v-%v", c, q), sluice.TokenBucket{Rate: perSecond(q), Burst: 1 << 20, WarmUp: warmUp, ColdFactor: int64(c)})
			for split := range 3 {
				key, waited := sluice.StringKey(fmt.Sprint(split)), time.Duration(0)
				take := func(n int64) {
					r, err := l.ReserveN(w.Context(), key, n, math.MaxInt64)
					if err != nil || !r.OK() {
						w.Fatalf("%d permits should be reserved: %v, %v", n, r, err)
					}
					waited += r.Decision().Delay
					w.pass(r.Decision().Delay)
				}
				for left := permits; left > 0; {
					n := 1 + rng.Int64N(left)
					if split == 0 {
						n = 1
					}
					take(n)
					left -= n
				}
				take(1)
				if off := waited - warmUp; off < -time.Duration(permits)*time.Microsecond || off > time.Duration(permits+1)*time.Microsecond {
					w.Errorf("cold factor %v, %v permits per second, split %d: waited %v; want %v", c, q, split, waited, warmUp)
				}
			}
		}
	}
}
