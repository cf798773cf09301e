package sluice_test

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// excess returns the requests ahead of one that waits so long, to a thousandth.
func excess(d time.Duration, rate sluice.Rate) float64 {
	return math.Round(1000*d.Seconds()*inSecond(rate)) / 1000
}

// queued is the result of limit.req and its likes.
func queued(d sluice.Decision, rate sluice.Rate) any {
	return passed(d, fields{"delay": d.Delay.Seconds(), "excess": excess(d.Delay, rate)})
}

// reqLimit is limit.req's queue.
func reqLimit(c fields) (sluice.LeakyBucket, error) {
	rate, err := c.rate("rate")
	return sluice.LeakyBucket{Rate: rate, Queue: c.count("burst", 0)}, err
}

// restyReq is OpenResty's limit.req.
func restyReq(w *world) (stepper, error) {
	a, err := reqLimit(w.v.Config)
	if err != nil {
		return nil, err
	}
	l, err := w.limiter("req", a)
	if err != nil {
		return nil, err
	}
	w.back = a.Rate.Period()
	q := &reqQueue{world: w, Limiter: l, taken: map[sluice.Key][]taking{}}
	return func(s fields) (any, error) {
		k := s.key()
		switch s.text("op") {
		case "incoming":
			if !s.flag("commit", true) {
				d, err := l.Peek(w.ctx, k, s.n())
				return queued(d, a.Rate), err
			}
			d, err := q.take(k, s.n())
			return queued(d, a.Rate), err
		case "uncommit":
			return true, q.giveBack(k)
		case "set", "set_rate", "set_burst":
			if s["rate"] != nil {
				if a.Rate, err = s.rate("rate"); err != nil {
					return nil, err
				}
			}
			a.Queue = s.count("burst", a.Queue)
			if err := change(l, a); err != nil {
				return nil, err
			}
			// The new rate holds from the last call on.
			for k, ts := range q.taken {
				if err := w.settle(l, k, ts[len(ts)-1].at); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}
		return unknown(s)
	}, nil
}

// taking is a call that passed and the state before it.
type taking struct {
	*sluice.Reservation
	at     int64
	before sluice.Decision
}

// reqQueue remembers the calls that can be given back.
type reqQueue struct {
	*world
	*sluice.Limiter
	taken map[sluice.Key][]taking
}

func (q *reqQueue) take(k sluice.Key, n int64) (sluice.Decision, error) {
	before, err := q.Peek(q.ctx, k, 0)
	if err != nil {
		return before, err
	}
	// As long a wait as the queue offers.
	r, err := q.Reserve(q.ctx, k, n, forever)
	if err != nil {
		return sluice.Decision{}, err
	}
	if r.OK() {
		q.taken[k] = append(q.taken[k], taking{r, q.now, before})
	}
	return r.Decision(), nil
}

// giveBack cancels the latest call, after which the state is that before it.
func (q *reqQueue) giveBack(k sluice.Key) error {
	n := len(q.taken[k])
	if n == 0 {
		return errors.New("nothing to give back")
	}
	last := q.taken[k][n-1]
	if last.Decision().Delay == 0 {
		// limit.req counts no less than no excess.
		q.excuse = giveBack
	}
	if err := last.Cancel(q.ctx); err != nil {
		return err
	}
	after, err := q.Peek(q.ctx, k, 0)
	if err == nil && q.now == last.at && after != last.before {
		q.t.Errorf("after giving back: %+v, before taking: %+v", after, last.before)
	}
	if q.taken[k] = q.taken[k][:n-1]; n == 1 {
		delete(q.taken, k)
	}
	return err
}

// redisLeaky is the leaky bucket in Redis, with a ban of so many seconds from the
// first excess on.
func redisLeaky(w *world) (stepper, error) {
	a, err := reqLimit(w.v.Config)
	if err != nil {
		return nil, err
	}
	l, err := w.limiter("req", a)
	if err != nil {
		return nil, err
	}
	w.back = a.Rate.Period()
	r := sluice.Request{Limit: l.Limit()}
	if length := span(w.v.Config.num("duration", 0), time.Second); length > 0 {
		r.Ban = &sluice.Ban{After: 1, For: length}
	}
	if truncated(a.Rate) {
		w.excuse = millirate
	}
	return func(s fields) (any, error) {
		r := r
		r.Key, r.Cost, r.Peek = s.key(), s.n(), !s.flag("commit", true)
		d, err := w.store.Decide(w.ctx, r)
		switch op := s.text("op"); {
		case err != nil:
			return nil, err
		case d.Reason == sluice.ReasonBanned:
			return oneOf{"rejected", "forbidden", "banned"}, nil
		case op == "incoming":
			return passed(d, "ok"), nil
		case op == "incoming_full":
			return queued(d, a.Rate), nil
		}
		return unknown(s)
	}, nil
}

// truncated reports whether a rate is no whole number of thousandths a second.
func truncated(r sluice.Rate) bool { return r.Count()*1000%int64(r.Period()/time.Second) != 0 }

// nginxReq is nginx's limit_req, of one zone or several: all must pass, and the
// longest delay counts. An empty key is not limited.
func nginxReq(w *world) (stepper, error) {
	zones := w.v.Config.list("zones")
	if len(zones) == 0 {
		zones = []fields{w.v.Config}
	}
	var all []sluice.Request
	for i, c := range zones {
		a, err := reqLimit(c)
		if err != nil {
			return nil, err
		}
		a.Undelayed = min(c.count("delay", 0), a.Queue)
		if c.flag("nodelay", false) {
			a.Undelayed = a.Queue
		}
		l, err := w.limiter(string(rune('a'+i)), a)
		if err != nil {
			return nil, err
		}
		if truncated(a.Rate) {
			w.excuse = millirate
		}
		w.back = max(w.back, a.Rate.Period())
		all = append(all, sluice.Request{Limit: l.Limit(), Cost: 1})
	}
	return func(s fields) (any, error) {
		if s.text("op") != "req" {
			return unknown(s)
		}
		rs := slices.Clone(all)
		keys, several := s["keys"].([]any)
		for i := range rs {
			rs[i].Key = s.key()
			if several && i < len(keys) {
				rs[i].Key = fields{"key": keys[i]}.key()
			}
		}
		if several || s["key"] != nil {
			rs = slices.DeleteFunc(rs, func(r sluice.Request) bool { return r.Key.Text() == "" })
		}
		ds := make([]sluice.Decision, len(rs))
		if err := w.store.DecideAll(w.ctx, rs, ds); err != nil {
			return nil, err
		}
		longest := time.Duration(0)
		for _, d := range ds {
			if !d.Allowed {
				return int64(503), nil
			}
			longest = max(longest, d.Delay)
		}
		w.also = fields{"delay_ms": float64(longest) / float64(time.Millisecond)}
		return int64(200), nil
	}, nil
}
