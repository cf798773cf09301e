package sluice_test

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// rolling is rolling-rate-limiter: a log that answers whether a call is blocked.
// Two companions of the same history, of the count and of the gap alone, tell why.
type rolling struct {
	*world
	limiter, count, gap *sluice.Limiter // gap is nil without a least difference
	counted             bool            // blocked calls count
	interval            time.Duration
}

func rollingWindow(w *world, v *vector) (adapter, error) {
	c := fields(v.Config)
	ms := func(name string) time.Duration {
		return time.Duration(micros(c.rat(name, 0), "ms")) * time.Microsecond
	}
	r := &rolling{world: w, counted: c["countBlocked"] != false, interval: ms("interval")}
	rate, least := sluice.Per(c.int("maxInInterval", 0), r.interval), ms("minDifference")
	var err error
	limiter := func(name string, rate sluice.Rate, least time.Duration) *sluice.Limiter {
		l, bad := limit(name, sluice.SlidingLog{Rate: rate, MinInterval: least, CountDenied: r.counted})
		if bad != nil {
			err = bad
			return nil
		}
		return sluice.NewLimiter(w, l)
	}
	r.limiter = limiter("both", rate, least)
	r.count = limiter("count", rate, 0)
	if least > 0 {
		r.gap = limiter("gap", sluice.Per(65_536, r.interval), least)
	}
	return r, err
}

func (r *rolling) do(s step) (any, error) {
	key := s.key()
	switch op := s.text("op"); op {
	case "limit":
		d, err := r.limiter.Allow(r.ctx, key)
		return !d.Allowed, err
	case "would":
		d, err := r.limiter.Peek(r.ctx, key, 1)
		return !d.Allowed, err
	case "limit_info", "would_info":
		return r.info(key, op == "limit_info")
	case "time_left":
		d, err := r.limiter.Allow(r.ctx, key)
		return milliseconds(d.RetryAfter), err
	case "count_allowed":
		n := 0
		for range s.int("calls", 0) {
			d, err := r.limiter.Allow(r.ctx, key)
			if err != nil {
				return nil, err
			}
			if d.Allowed {
				n++
			}
		}
		return n, nil
	case "ttl_seconds":
		d, err := r.limiter.Allow(r.ctx, key)
		return roundedUp(d.ResetAfter), err
	case "clear":
		return nil, r.limiter.Reset(r.ctx, key)
	default:
		return nil, fmt.Errorf("no call %q", op)
	}
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// info makes a call, or says what it would answer, and why.
func (r *rolling) info(key sluice.Key, commit bool) (any, error) {
	d, err := r.limiter.Peek(r.ctx, key, 1)
	if err != nil {
		return nil, err
	}
	var byCount, byGap bool
	for companion, blocked := range map[*sluice.Limiter]*bool{r.count: &byCount, r.gap: &byGap} {
		if companion == nil {
			continue
		}
		c, err := companion.Peek(r.ctx, key, 1)
		if err != nil {
			return nil, err
		}
		*blocked = !c.Allowed
		if commit && (d.Allowed || r.counted) {
			if _, err := companion.Allow(r.ctx, key); err != nil {
				return nil, err
			}
		}
	}
	wait := d.RetryAfter // that of a log which holds this call
	switch {
	case !d.Allowed && commit:
		if d, err = r.limiter.Allow(r.ctx, key); err != nil {
			return nil, err
		}
		wait = d.RetryAfter
	case d.Allowed:
		// As of a log that holds this call; one that only would be made is taken back.
		taken, err := r.limiter.Reserve(r.ctx, key, 1, 0)
		if err != nil {
			return nil, err
		}
		d = taken.Decision()
		if wait, err = r.untilAllowed(key); err != nil {
			return nil, err
		}
		if !commit {
			if err := taken.Cancel(r.ctx); err != nil {
				return nil, err
			}
		}
	}
	return map[string]any{
		"blocked": !d.Allowed, "blockedDueToCount": byCount, "blockedDueToMinDifference": byGap,
		"millisecondsUntilAllowed": milliseconds(wait), "actionsRemaining": d.Remaining,
	}, nil
}

// untilAllowed looks for the earliest time at which a call would pass.
func (r *rolling) untilAllowed(key sluice.Key) (time.Duration, error) {
	now := r.now
	defer func() { r.now = now }()
	low, high := int64(-1), r.interval.Microseconds()
	for low+1 < high {
		mid := low + (high-low)/2
		r.now = now + mid
		d, err := r.limiter.Peek(r.ctx, key, 1)
		if err != nil {
			return 0, err
		}
		if d.Allowed {
			high = mid
		} else {
			low = mid
		}
	}
	return time.Duration(high) * time.Microsecond, nil
}
