package sluice_test

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// throttle1 is think-throttle 1: a history of each client in a log, and headers.
// It decides before the handler runs, whatever that answers.
type throttle1 struct {
	*world
	limiter *sluice.Limiter
}

func thinkThrottle1(w *world, v *vector) (adapter, error) {
	rate, err := sluice.ParseRate(fields(v.Config).text("visit_rate"))
	if err != nil {
		return nil, err
	}
	l, err := limit("visits", sluice.SlidingLog{Rate: rate})
	if err != nil {
		return nil, err
	}
	return &throttle1{w, sluice.NewLimiter(w, l)}, nil
}

func (a *throttle1) do(s step) (any, error) {
	d, err := a.limiter.Allow(a.ctx, s.key())
	if err != nil {
		return nil, err
	}
	if s.text("op") == "get_status" {
		if d.Allowed {
			return s.int("handler", 200), nil
		}
		return 429, nil
	}
	if !d.Allowed {
		return map[string]any{"status": 429, "Retry-After": roundedUp(d.RetryAfter)}, nil
	}
	// The oldest visit leaves when one more than those that remain would pass.
	next, err := a.limiter.Peek(a.ctx, s.key(), d.Remaining+1)
	return map[string]any{
		"status": 200, "X-Rate-Limit-Limit": d.Limit, "X-Rate-Limit-Remaining": d.Remaining,
		"X-Rate-Limit-Reset": approx{float64(a.now)/1e6 + next.RetryAfter.Seconds(), 1e-6},
	}, err
}

// throttle3 is think-throttle 3, with its four drivers; waits are whole seconds,
// rounded up.
type throttle3 struct {
	*world
	limiter *sluice.Limiter // nil when it is off
}

func thinkThrottle3(w *world, v *vector) (adapter, error) {
	c := fields(v.Config)
	rate := sluice.Per(c.int("max", 0), time.Duration(c.int("duration", 0))*time.Second)
	if text, ok := c["visit_rate"].(string); ok {
		if text == "" {
			return &throttle3{world: w}, nil
		}
		var err error
		if rate, err = sluice.ParseRate(text); err != nil {
			return nil, err
		}
	}
	var a sluice.Algorithm
	switch driver := c.text("driver"); driver {
	case "", "CounterFixed":
		a = sluice.FixedWindow{Rate: rate}
	case "CounterSlider":
		a = sluice.SlidingLog{Rate: rate}
	case "TokenBucket":
		a = sluice.TokenBucket{Rate: rate}
	case "LeakyBucket":
		a = sluice.LeakyBucket{Rate: rate}
	default:
		return nil, fmt.Errorf("no driver %q", driver)
	}
	l, err := limit("visits", a)
	if err != nil {
		return nil, err
	}
	return &throttle3{w, sluice.NewLimiter(w, l)}, nil
}

func (a *throttle3) do(s step) (any, error) {
	d := sluice.Decision{Allowed: true}
	var err error
	if a.limiter != nil {
		d, err = a.limiter.Allow(a.ctx, s.key())
	}
	if s.text("op") == "take" {
		return d.Allowed, err
	}
	answer := map[string]any{"allow": d.Allowed}
	if !d.Allowed {
		answer["wait"] = roundedUp(d.RetryAfter)
	}
	return answer, err
}

// rateParser reads rates.
type rateParser struct{}

func thinkThrottleRate(*world, *vector) (adapter, error) { return rateParser{}, nil }

func (rateParser) do(s step) (any, error) {
	r, err := sluice.ParseRate(s.text("rate"))
	if err != nil {
		return "error", nil //nolint:nilerr // the error is the result
	}
	return []any{r.Count(), approx{r.Period().Seconds(), 0}}, nil
}
