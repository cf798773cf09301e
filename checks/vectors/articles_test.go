package vectors

import (
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// redisBucket is the token bucket of a Lua script, whose settings are in a hash. It returns 1 for a
// call that passes, 0 for a denial, and -1 for a key without settings.
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
			// The caller gave the script seconds instead of milliseconds. Sluice uses the clock of
			// the store, so that these calls happen at the intended times.
			w.clock.Store(int64(span(s.num("t", 0), time.Second) / time.Microsecond))
		}
		switch s.text("op") {
		case "take":
			d, err := l.AllowN(w.Context(), s.key(), s.n())
			if d.Allowed {
				return int64(1), err
			}
			return int64(0), err
		case "balance":
			d, err := l.PeekN(w.Context(), s.key(), 0)
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

// tokenPseudo is the token bucket of an article in pseudo-code.
func tokenPseudo(w *world) (stepper, error) {
	c := w.v.Config
	l, err := w.limiter("bucket", sluice.TokenBucket{Rate: perSecond(c.num("rate", 0)), Burst: c.count("cap", 0)})
	if err != nil {
		return nil, err
	}
	w.back = l.Limit().Algorithm().(sluice.TokenBucket).Rate.Period()
	return takes(w, l), nil
}

// takes makes the calls take, take_many and balance.
func takes(w *world, l *sluice.Limiter) stepper {
	return func(s fields) (any, error) {
		switch s.text("op") {
		case "take":
			d, err := l.AllowN(w.Context(), s.key(), s.n())
			return d.Allowed, err
		case "take_many":
			passed := int64(0)
			for range s.n() {
				d, err := l.Allow(w.Context(), s.key())
				if err != nil {
					return nil, err
				}
				if d.Allowed {
					passed++
				}
			}
			return passed, nil
		case "balance":
			d, err := l.PeekN(w.Context(), s.key(), 0)
			return d.Remaining, err
		}
		return unknown(s)
	}
}

// fixedWindow counts in windows that open with a request. If the style says "align", they begin at
// multiples of their length.
func fixedWindow(w *world) (stepper, error) {
	c := w.v.Config
	l, err := w.limiter("window", sluice.FixedWindow{
		Rate:   sluice.Per(c.count("limit", 0), span(c.num("window", 0), w.unit())),
		Opened: !strings.Contains(c.text("style"), "align"),
	})
	if err != nil {
		return nil, err
	}
	return takes(w, l), nil
}

// subWindow is a sliding window of cells.
func subWindow(w *world) (stepper, error) {
	c := w.v.Config
	window, cell := span(c.num("window", 0), w.unit()), span(c.num("cell", 1), w.unit())
	l, err := w.limiter("window", sluice.SlidingWindow{Rate: sluice.Per(c.count("limit", 0), window), Cells: int(window / cell)})
	if err != nil {
		return nil, err
	}
	return takes(w, l), nil
}
