package sluice_test

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// throttleDriver is think-throttle's: max requests in duration seconds, by one of
// four algorithms, whose waits are in whole seconds.
func throttleDriver(w *world) (stepper, error) {
	c := w.v.Config
	rate := sluice.Per(c.count("max", 0), span(c.num("duration", 0), time.Second))
	var a sluice.Algorithm
	switch driver := c.text("driver"); driver {
	case "CounterFixed":
		a = sluice.FixedWindow{Rate: rate}
	case "CounterSlider":
		a = sluice.SlidingLog{Rate: rate}
	case "LeakyBucket":
		a = sluice.LeakyBucket{Rate: rate}
		w.back = rate.Period()
	case "TokenBucket":
		a = sluice.TokenBucket{Rate: rate}
		w.back = rate.Period()
	default:
		return nil, fmt.Errorf("no such driver: %q", driver)
	}
	l, err := w.limiter("driver", a)
	if err != nil {
		return nil, err
	}
	plain := takes(w, l)
	return func(s fields) (any, error) {
		if s.text("op") != "take_wait" {
			return plain(s)
		}
		d, err := l.AllowN(w.ctx, s.key(), s.n())
		return fields{"allow": d.Allowed, "wait": up(d.RetryAfter, time.Second)}, err
	}, nil
}

// throttleRate reads rates. An empty one turns the rule off: there is none to limit by.
func throttleRate(*world) (stepper, error) {
	return func(s fields) (any, error) {
		if s.text("op") != "parse" {
			return unknown(s)
		}
		if s["rate"] == nil || s.text("rate") == "" {
			return oneOf{"off", "none", "unlimited"}, nil
		}
		r, err := sluice.ParseRate(s.text("rate"))
		if err != nil {
			return "error", nil //nolint:nilerr // a text that is no rate is a result
		}
		return []any{r.Count(), r.Period().Seconds()}, nil
	}, nil
}

// throttleHistory is think-throttle's first version: a log of requests, decided and
// counted before the handler runs.
func throttleHistory(w *world) (stepper, error) {
	rate, err := perText(w.v.Config.text("visit_rate"))
	if err != nil {
		return nil, err
	}
	l, err := w.limiter("history", sluice.SlidingLog{Rate: rate})
	if err != nil {
		return nil, err
	}
	return func(s fields) (any, error) {
		d, err := l.Allow(w.ctx, s.key())
		if err != nil {
			return nil, err
		}
		switch op := s.text("op"); {
		case op == "get_status" && d.Allowed:
			return s["handler"], nil
		case op == "get_status":
			return int64(429), nil
		case op != "get":
			return unknown(s)
		case !d.Allowed:
			return fields{"status": int64(429), "Retry-After": up(d.RetryAfter, time.Second)}, nil
		}
		// The reset is when the oldest request leaves the window.
		next, err := l.Peek(w.ctx, s.key(), d.Remaining+1)
		return fields{
			"status":                 int64(200),
			"X-Rate-Limit-Limit":     d.Limit,
			"X-Rate-Limit-Remaining": d.Remaining,
			"X-Rate-Limit-Reset":     w.now/1_000_000 + up(next.RetryAfter, time.Second),
		}, err
	}, nil
}
