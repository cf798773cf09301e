package sluice_test

import (
	"fmt"
	"math"
	"time"

	"github.com/sluicehq/sluice"
)

// guavaSmooth is Guava's RateLimiter.
func guavaSmooth(w *world) (stepper, error) {
	w.tolerance = 2.5e-6 // Guava rounds down to microseconds, and ours up
	switch kind := w.v.Config.text("kind"); kind {
	case "bursty":
		return guavaBursty(w)
	case "warmup":
		return guavaWarmUp(w)
	default:
		return nil, fmt.Errorf("no such kind: %q", kind)
	}
}

// reserve takes n permits if they can be had within the longest wait.
type reserve func(n int64, longest time.Duration) (sluice.Decision, error)

// guavaSteps answers the steps of either kind.
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
		r, err := l.Reserve(w.ctx, sluice.Key{}, n, longest)
		if err != nil {
			return sluice.Decision{}, err
		}
		return r.Decision(), nil
	}
	return guavaSteps(w, take, func(rate float64) error { return change(l, bucket(rate)) }), nil
}

// bursty is SmoothBursty: a bucket of the permits of a second, empty at first, into
// whose debt a request goes once its predecessors are paid for. Permits are counted in units
// that make all rates of the vector whole.
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

// take waits for what is owed, and then owes its own.
func (b *bursty) take(n int64, longest time.Duration) (sluice.Decision, error) {
	r, err := b.Reserve(b.ctx, sluice.Key{}, 0, longest)
	if err != nil || !r.OK() {
		return sluice.Decision{}, err
	}
	return r.Decision(), r.Settle(b.ctx, n*b.units)
}

// setRate keeps the time until the bucket is full: the permits stored keep their
// share, and what is owed its time.
func (b *bursty) setRate(rate float64) error {
	d, err := b.Peek(b.ctx, sluice.Key{}, 0)
	if err != nil {
		return err
	}
	if err := change(b.Limiter, b.bucket(rate)); err != nil {
		return err
	}
	if err := b.Limiter.Reset(b.ctx, sluice.Key{}); err != nil {
		return err
	}
	return b.restore(d.ResetAfter)
}

// restore makes a fresh bucket one that is full after so long: it was drained, and
// owed whole units, a while ago.
func (b *bursty) restore(full time.Duration) error {
	rate := inSecond(b.Limit().Algorithm().(sluice.TokenBucket).Rate)
	owed := max(0, math.Ceil((full-time.Second).Seconds()*rate-1e-6))
	now := b.now
	defer func() { b.now = now }()
	b.pass(full - time.Second - span(owed/rate, time.Second))
	r, err := b.Reserve(b.ctx, sluice.Key{}, b.Limit().Capacity(), 0)
	if err != nil {
		return err
	}
	return r.Settle(b.ctx, b.Limit().Capacity()+int64(owed))
}
