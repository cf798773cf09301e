package vectors

import (
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// rolling is rolling-rate-limiter. Two more limiters see the same actions and show which of its two
// rules blocks: the count, or the gap between actions.
type rolling struct {
	*world
	all, count, gap *sluice.Limiter
	interval        time.Duration
	countBlocked    bool
}

// rollingWindow returns true for an action that is blocked.
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
		d, err := r.all.Peek(r.Context(), k)
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
			if err := l.Reset(r.Context(), k); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return unknown(s)
}

// look returns which rules would block an action.
func (r *rolling) look(k sluice.Key) (fields, error) {
	count, err := r.count.Peek(r.Context(), k)
	if err != nil {
		return nil, err
	}
	gap, err := r.gap.Peek(r.Context(), k)
	return fields{"blockedDueToCount": !count.Allowed, "blockedDueToMinDifference": !gap.Allowed}, err
}

// act makes an action.
func (r *rolling) act(k sluice.Key) (sluice.Decision, fields, error) {
	info, err := r.look(k)
	if err != nil {
		return sluice.Decision{}, nil, err
	}
	d, err := r.all.Allow(r.Context(), k)
	if err != nil {
		return d, nil, err
	}
	if either := info["blockedDueToCount"] == true || info["blockedDueToMinDifference"] == true; d.Allowed == either {
		r.Errorf("%+v, but its rules say %v", d, info)
	}
	if d.Allowed || r.countBlocked {
		for _, l := range []*sluice.Limiter{r.count, r.gap} {
			if _, err := l.Allow(r.Context(), k); err != nil {
				return d, nil, err
			}
		}
	}
	info["blocked"] = !d.Allowed
	info["actionsRemaining"] = d.Remaining
	return d, info, nil
}

// would returns the result that an action would have. It takes the action and cancels it.
func (r *rolling) would(k sluice.Key) (any, error) {
	info, err := r.look(k)
	if err != nil {
		return nil, err
	}
	d, err := r.all.Peek(r.Context(), k)
	if err != nil {
		return nil, err
	}
	info["blocked"], info["actionsRemaining"] = !d.Allowed, d.Remaining
	if !d.Allowed {
		return info, r.until(k, d, info)
	}
	made, err := r.all.Reserve(r.Context(), k, 0)
	if err != nil {
		return nil, err
	}
	info["actionsRemaining"] = made.Decision().Remaining
	if err := r.until(k, made.Decision(), info); err != nil {
		return nil, err
	}
	return info, made.Cancel(r.Context())
}

// until adds the milliseconds until the next action is allowed. A denial holds the time; otherwise it
// is the first millisecond in which a peek is allowed.
func (r *rolling) until(k sluice.Key, d sluice.Decision, info fields) error {
	if !d.Allowed {
		info["millisecondsUntilAllowed"] = up(d.RetryAfter, time.Millisecond)
		return nil
	}
	var failed error
	ms := sort.Search(int(up(r.interval, time.Millisecond)), func(ms int) bool {
		var d sluice.Decision
		err := r.at(r.now()+1000*int64(ms), func() (err error) {
			d, err = r.all.Peek(r.Context(), k)
			return err
		})
		if err != nil {
			failed = err
		}
		return d.Allowed
	})
	info["millisecondsUntilAllowed"] = int64(ms)
	return failed
}

// rollingOptions checks which options NewLimit refuses.
func rollingOptions(w *world) {
	for kind, ok := range map[string]bool{"valid": true, "invalid": false} {
		all := w.v.Config.list(kind)
		if len(all) < 3 {
			w.Errorf("%d options are %s", len(all), kind)
		}
		for _, c := range all {
			_, err := sluice.NewLimit("rolling", sluice.SlidingLog{
				Rate:        sluice.Per(c.count("maxInInterval", 0), time.Duration(c.count("interval", 0))*time.Millisecond),
				MinInterval: time.Duration(c.count("minDifference", 0)) * time.Millisecond,
			})
			if (err == nil) != ok {
				w.Errorf("the options %v are valid: %v, got %v", c, ok, err)
			}
		}
	}
}

// rollingShared checks that two limiters of one name share the count of a user, and that two names
// have a count each.
func rollingShared(w *world) {
	for _, c := range []struct {
		names  [2]string
		config string
		total  string
		shares bool
	}{{[2]string{"same", "same"}, "same_namespace", "total_per_user", true}, {[2]string{"first", "second"}, "different_namespace", "per_limiter_per_user", false}} {
		settings := w.v.Config.object(c.config)
		var all [2]*sluice.Limiter
		for i, name := range c.names {
			all[i] = w.mustLimiter(name, sluice.SlidingLog{Rate: sluice.Per(settings.count("each_max", 0), 10*time.Second), CountDenied: true})
		}
		for user := range settings.count("users", 0) {
			var passed [2]atomic.Int64
			var group sync.WaitGroup
			for i, l := range all {
				for range 4 {
					group.Go(func() {
						for range settings.count("calls", 0) / 4 {
							d, err := l.Allow(w.Context(), sluice.StringKey(fmt.Sprint("user ", user)))
							if err != nil {
								w.Error(err)
							}
							if d.Allowed {
								passed[i].Add(1)
							}
						}
					})
				}
			}
			group.Wait()
			a, b, want := passed[0].Load(), passed[1].Load(), settings.count(c.total, 0)
			if c.shares && a+b != want || !c.shares && (a != want || b != want) {
				w.Errorf("%[1]v: user %[4]d: %[2]d and %[3]d pass; want %[5]d", c.names, a, b, user, want)
			}
		}
	}
}
