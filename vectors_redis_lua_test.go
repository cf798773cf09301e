package sluice_test

import (
	"errors"

	"github.com/sluicehq/sluice"
)

// luaBucket is the Redis and Lua token bucket: 1 passes, 0 is limited, −1 has no
// limit configured.
type luaBucket struct {
	*world
	limiter *sluice.Limiter // nil without a configuration
	broken  error           // what is wrong with the configuration
	times   int64
}

func redisLua(w *world, v *vector) (adapter, error) {
	b := &luaBucket{world: w, times: 1}
	if v.Config == nil {
		return b, nil
	}
	c := fields(v.Config)
	if len(v.Steps) > 0 && v.Unit == "ms" {
		// A caller that passes seconds where milliseconds are expected: our stores
		// read a clock of their own, and it tells the right time.
		if t := v.Steps[0].int("t", 0); t >= 1e9 && t < 1e11 {
			b.times = 1000
		}
	}
	burst := c.int("bucket_cap", 0)
	rate, err := perSecond(c["rate"], 1)
	if !c.has("rate") && c.has("period") {
		// The rate follows from the capacity and its period.
		r := c.rat("bucket_cap", 0)
		f, _ := r.Quo(r, c.rat("period", 1)).Float64()
		rate, err = perSecond(f, 1)
	}
	if err == nil {
		var l *sluice.Limit
		if l, err = limit("bucket", sluice.TokenBucket{Rate: rate, Burst: burst}); err == nil {
			b.limiter = sluice.NewLimiter(w, l)
		}
	}
	b.broken = err
	return b, nil
}

func (b *luaBucket) scale() int64 { return b.times }

func (b *luaBucket) do(s step) (any, error) {
	switch {
	case b.broken != nil:
		return "error", nil
	case b.limiter == nil:
		return -1, nil
	case s.text("op") == "balance":
		d, err := b.limiter.Peek(b.ctx, s.key(), 0)
		return d.Remaining, err
	}
	d, err := b.limiter.AllowN(b.ctx, s.key(), s.int("n", 1))
	var bad *sluice.RequestError
	switch {
	case errors.As(err, &bad):
		return "error", nil
	case d.Allowed:
		return 1, err
	default:
		return 0, err
	}
}

// plainBucket is a token bucket whose takes are true or false.
type plainBucket struct {
	*world
	limiter *sluice.Limiter
}

// tokenPseudo is the article's token bucket in pseudo code, done right.
func tokenPseudo(w *world, v *vector) (adapter, error) {
	rate, err := perSecond(v.Config["rate"], 1)
	if err != nil {
		return nil, err
	}
	l, err := limit("bucket", sluice.TokenBucket{Rate: rate, Burst: fields(v.Config).int("cap", 0)})
	if err != nil {
		return nil, err
	}
	return &plainBucket{w, sluice.NewLimiter(w, l)}, nil
}

func (b *plainBucket) do(s step) (any, error) {
	d, err := b.limiter.AllowN(b.ctx, s.key(), s.int("n", 1))
	return d.Allowed, err
}
