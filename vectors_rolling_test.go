package sluice_test

import (
	"sort"
	"time"

	"github.com/sluicehq/sluice"
)

// rolling is rolling-rate-limiter. Two companions that are fed the same actions
// tell which of its two rules blocks.
type rolling struct {
	*world
	all, count, gap *sluice.Limiter
	interval        time.Duration
	countBlocked    bool
}

// rollingWindow answers true where an action is blocked.
func rollingWindow(w *world) (stepper, error) {
	c := w.v.Config
	r := &rolling{
		world: w, interval: span(c.num("interval", 0), w.unit()),
		countBlocked: c.flag("countBlocked", true),
	}
	least := span(c.num("minDifference", 0), w.unit())
	rate := sluice.Per(c.count("maxInInterval", 0), r.interval)
	for _, l := range []struct {
		name  string
		to    **sluice.Limiter
		rate  sluice.Rate
		least time.Duration
	}{
		{"all", &r.all, rate, least},
		{"count", &r.count, rate, 0},
		{"gap", &r.gap, sluice.Per(1<<16, r.interval), least},
	} {
		var err error
		a := sluice.SlidingLog{Rate: l.rate, MinInterval: l.least, CountDenied: r.countBlocked}
		if *l.to, err = w.limiter(l.name, a); err != nil {
			return nil, err
		}
	}
	return r.step, nil
}

func (r *rolling) step(s fields) (any, error) {
	k := s.key()
	switch s.text("op") {
	case "limit":
		d, _, err := r.act(k)
		return !d.Allowed, err
	case "would":
		d, err := r.all.Peek(r.ctx, k, 1)
		return !d.Allowed, err
	case "limit_info":
		d, info, err := r.act(k)
		if err != nil {
			return nil, err
		}
		return info, r.until(k, d, info)
	case "would_info":
		return r.would(k)
	case "time_left":
		d, _, err := r.act(k)
		return up(d.RetryAfter, time.Millisecond), err
	case "count_allowed":
		passed := int64(0)
		for range s.count("calls", 0) {
			d, _, err := r.act(k)
			if err != nil {
				return nil, err
			}
			if d.Allowed {
				passed++
			}
		}
		return passed, nil
	case "ttl_seconds":
		d, _, err := r.act(k)
		return up(d.ResetAfter, time.Second), err
	case "clear":
		for _, l := range []*sluice.Limiter{r.all, r.count, r.gap} {
			if err := l.Reset(r.ctx, k); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return unknown(s)
}

// look asks what blocks an action.
func (r *rolling) look(k sluice.Key) (fields, error) {
	count, err := r.count.Peek(r.ctx, k, 1)
	if err != nil {
		return nil, err
	}
	gap, err := r.gap.Peek(r.ctx, k, 1)
	return fields{"blockedDueToCount": !count.Allowed, "blockedDueToMinDifference": !gap.Allowed}, err
}

// act makes an action.
func (r *rolling) act(k sluice.Key) (sluice.Decision, fields, error) {
	info, err := r.look(k)
	if err != nil {
		return sluice.Decision{}, nil, err
	}
	d, err := r.all.Allow(r.ctx, k)
	if err != nil {
		return d, nil, err
	}
	if either := info["blockedDueToCount"] == true || info["blockedDueToMinDifference"] == true; d.Allowed == either {
		r.t.Errorf("%+v, but of its rules: %v", d, info)
	}
	if d.Allowed || r.countBlocked {
		for _, l := range []*sluice.Limiter{r.count, r.gap} {
			if _, err := l.Allow(r.ctx, k); err != nil {
				return d, nil, err
			}
		}
	}
	info["blocked"] = !d.Allowed
	info["actionsRemaining"] = d.Remaining
	return d, info, nil
}

// would answers what an action would be told: it is made and given back.
func (r *rolling) would(k sluice.Key) (any, error) {
	info, err := r.look(k)
	if err != nil {
		return nil, err
	}
	d, err := r.all.Peek(r.ctx, k, 1)
	if err != nil {
		return nil, err
	}
	info["blocked"], info["actionsRemaining"] = !d.Allowed, d.Remaining
	if !d.Allowed {
		return info, r.until(k, d, info)
	}
	made, err := r.all.Reserve(r.ctx, k, 1, 0)
	if err != nil {
		return nil, err
	}
	info["actionsRemaining"] = made.Decision().Remaining
	if err := r.until(k, made.Decision(), info); err != nil {
		return nil, err
	}
	return info, made.Cancel(r.ctx)
}

// until adds the milliseconds until the next action is allowed: as a denial says, or
// the first in which a question would be answered so.
func (r *rolling) until(k sluice.Key, d sluice.Decision, info fields) error {
	if !d.Allowed {
		info["millisecondsUntilAllowed"] = up(d.RetryAfter, time.Millisecond)
		return nil
	}
	now, failed := r.now, error(nil)
	defer func() { r.now = now }()
	ms := sort.Search(int(up(r.interval, time.Millisecond)), func(ms int) bool {
		r.now = now + 1000*int64(ms)
		d, err := r.all.Peek(r.ctx, k, 1)
		if err != nil {
			failed = err
		}
		return d.Allowed
	})
	info["millisecondsUntilAllowed"] = int64(ms)
	return failed
}
