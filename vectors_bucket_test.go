package sluice_test

import (
	"time"

	"github.com/sluicehq/sluice"
)

// redisBucket is the token bucket in Redis of a hash with its numbers: 1 passes, 0
// does not, -1 is for a key without numbers, which is no limit.
func redisBucket(w *world) (stepper, error) {
	if w.v.Config == nil {
		return func(fields) (any, error) { return int64(-1), nil }, nil
	}
	c := w.v.Config
	rate := perSecond(c.num("rate", 0))
	if period := c.num("period", 0); c["rate"] == nil && period > 0 {
		rate = sluice.Per(c.count("bucket_cap", 0), span(period, time.Second))
	}
	l, err := w.limiter("bucket", sluice.TokenBucket{Rate: rate, Burst: c.count("bucket_cap", 0)})
	if err != nil {
		return nil, err
	}
	w.back = rate.Period()
	seconds := w.v.defect() && tenDigits(w.v.Steps)
	return func(s fields) (any, error) {
		if seconds {
			// The script was given seconds for milliseconds. Our time is the
			// store's, so that these calls come at the moments that were meant.
			w.now = int64(span(s.num("t", 0), time.Second) / time.Microsecond)
		}
		switch s.text("op") {
		case "take":
			d, err := l.AllowN(w.ctx, s.key(), s.n())
			if d.Allowed {
				return int64(1), err
			}
			return int64(0), err
		case "balance":
			d, err := l.Peek(w.ctx, s.key(), 0)
			return d.Remaining, err
		}
		return unknown(s)
	}, nil
}

// tenDigits reports whether all times are Unix times in seconds.
func tenDigits(steps []fields) bool {
	for _, s := range steps {
		if t := s.num("t", 0); t < 1e9 || t >= 1e10 {
			return false
		}
	}
	return true
}

// tokenPseudo is the token bucket in pseudo-code.
func tokenPseudo(w *world) (stepper, error) {
	c := w.v.Config
	l, err := w.limiter("bucket", sluice.TokenBucket{Rate: perSecond(c.num("rate", 0)), Burst: c.count("cap", 0)})
	if err != nil {
		return nil, err
	}
	w.back = l.Limit().Algorithm().(sluice.TokenBucket).Rate.Period()
	return takes(w, l), nil
}

// takes answers take, take_many and balance with a limiter.
func takes(w *world, l *sluice.Limiter) stepper {
	return func(s fields) (any, error) {
		switch s.text("op") {
		case "take":
			d, err := l.AllowN(w.ctx, s.key(), s.n())
			return d.Allowed, err
		case "take_many":
			passed := int64(0)
			for range s.n() {
				d, err := l.Allow(w.ctx, s.key())
				if err != nil {
					return nil, err
				}
				if d.Allowed {
					passed++
				}
			}
			return passed, nil
		case "balance":
			d, err := l.Peek(w.ctx, s.key(), 0)
			return d.Remaining, err
		}
		return unknown(s)
	}
}
