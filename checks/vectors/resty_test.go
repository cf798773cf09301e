package vectors

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// restyCount is OpenResty's limit.count. Its window opens with the first call, and a call returns
// what remains.
func restyCount(w *world) (stepper, error) {
	c := w.v.Config
	l, err := w.limiter("count", countLimit(c))
	if err != nil {
		return nil, err
	}
	taken := map[sluice.Key][]*sluice.Reservation{}
	return func(s fields) (any, error) {
		k := s.key()
		switch s.text("op") {
		case "incoming":
			if !s.flag("commit", true) {
				d, err := l.PeekN(w.Context(), k, s.n())
				return passed(d, d.Remaining-s.n()), err
			}
			r, err := l.ReserveN(w.Context(), k, s.n(), 0)
			if err != nil {
				return nil, err
			}
			if r.OK() {
				taken[k] = append(taken[k], r)
			}
			return passed(r.Decision(), r.Decision().Remaining), nil
		case "uncommit":
			if n := len(taken[k]); n > 0 {
				if err := taken[k][n-1].Settle(w.Context(), 0); err != nil {
					return nil, err
				}
				taken[k] = taken[k][:n-1]
			}
			d, err := l.PeekN(w.Context(), k, 0)
			return d.Remaining, err
		}
		return unknown(s)
	}, nil
}

func countLimit(c fields) sluice.Algorithm {
	return sluice.FixedWindow{Rate: sluice.Per(c.count("limit", 0), span(c.num("window", 0), time.Second)), Opened: true}
}

// connLimit is the limit of limit.conn.
func connLimit(c fields) sluice.Concurrency {
	return sluice.Concurrency{
		Max: c.count("max", 0), Queue: c.count("burst", 0),
		TTL: 24 * time.Hour, Latency: span(c.num("unit_delay", 0), time.Second),
	}
}

// conns holds the open connections, oldest first.
type conns struct {
	*world
	limit *sluice.Limit
	next  uint64
	open  map[sluice.Key][]sluice.Charge
}

// restyConn is OpenResty's limit.conn.
func restyConn(w *world) (stepper, error) {
	a := connLimit(w.v.Config)
	limit, err := sluice.NewLimit("conn", a)
	if err != nil {
		return nil, err
	}
	c := &conns{world: w, limit: limit, open: map[sluice.Key][]sluice.Charge{}}
	return func(s fields) (any, error) {
		k := s.key()
		switch s.text("op") {
		case "incoming":
			return c.incoming(k, s.flag("commit", true))
		case "leaving":
			return c.leave(k, func(open sluice.Charge) error {
				if s["latency"] == nil {
					return w.store.Cancel(w.Context(), open)
				}
				return w.store.Release(w.Context(), open, span(s.num("latency", 0), time.Second))
			})
		case "uncommit":
			return c.leave(k, func(open sluice.Charge) error { return w.store.Cancel(w.Context(), open) })
		case "unit_delay":
			return c.unitDelay(k)
		case "set", "set_conn", "set_burst", "set_unit_delay":
			a.Max, a.Queue = s.count("max", a.Max), s.count("burst", a.Queue)
			a.Latency = span(s.num("unit_delay", a.Latency.Seconds()), time.Second)
			next, err := sluice.NewLimit("conn", a)
			if err == nil {
				c.limit = next
			}
			return nil, err
		}
		return unknown(s)
	}, nil
}

func (c *conns) incoming(k sluice.Key, commit bool) (any, error) {
	c.next++
	r := sluice.Request{Limit: c.limit, Key: k, Cost: 1, Member: c.next, Peek: !commit}
	d, err := c.store.Decide(c.Context(), r)
	if err != nil {
		return nil, err
	}
	conn := d.Limit - d.Remaining
	if !commit {
		conn++ // a peek does not count its own connection
	} else if d.Allowed {
		c.open[k] = append(c.open[k], r.Charge(&d))
	}
	return passed(d, fields{"delay": d.Delay.Seconds(), "conn": conn}), nil
}

// leave ends the oldest connection and returns how many stay open.
func (c *conns) leave(k sluice.Key, end func(sluice.Charge) error) (any, error) {
	open := c.open[k]
	if len(open) == 0 {
		return nil, errors.New("no connection is open")
	}
	c.open[k] = open[1:]
	open[0].Limit = c.limit
	if err := end(open[0]); err != nil {
		return nil, err
	}
	d, err := c.store.Decide(c.Context(), sluice.Request{Limit: c.limit, Key: k, Peek: true})
	return d.Limit - d.Remaining, err
}

// unitDelay returns the delay of one turn: it divides the delay of the last turn in the queue by
// the number of turns.
func (c *conns) unitDelay(k sluice.Key) (any, error) {
	a := c.limit.Algorithm().(sluice.Concurrency)
	peek := sluice.Request{Limit: c.limit, Key: k, Peek: true}
	d, err := c.store.Decide(c.Context(), peek)
	if err != nil {
		return nil, err
	}
	peek.Cost, peek.Member = d.Remaining, c.next+1
	if open := c.open[k]; d.Remaining == 0 {
		peek.Cost, peek.Member = 1, open[len(open)-1].Member
	}
	turns := (d.Limit - 1) / a.Max
	if d, err = c.store.Decide(c.Context(), peek); err != nil || turns == 0 {
		return nil, errors.Join(err, errors.New("the limit has no queue"))
	}
	return d.Delay.Seconds() / float64(turns), nil
}

// restyTraffic is OpenResty's limit.traffic.combine. Several limiters decide together.
func restyTraffic(w *world) (stepper, error) {
	limiters := w.v.Config.list("limiters")
	rs := make([]sluice.Request, len(limiters))
	for i, c := range limiters {
		var a sluice.Algorithm
		var err error
		switch kind := c.text("type"); kind {
		case "req":
			a, err = reqLimit(c)
		case "conn":
			a = connLimit(c)
		case "count":
			a = countLimit(c)
		default:
			err = fmt.Errorf("unknown limiter: %q", kind)
		}
		if err != nil {
			return nil, err
		}
		limit, err := sluice.NewLimit(strconv.Itoa(i), a)
		if err != nil {
			return nil, err
		}
		rs[i] = sluice.Request{Limit: limit, Key: c.key(), Cost: 1}
	}
	member := uint64(0)
	return func(s fields) (any, error) {
		if s.text("op") != "combine" {
			return unknown(s)
		}
		member++
		for i := range rs {
			rs[i].Member, rs[i].Peek = member, !s.flag("commit", true)
		}
		ds := make([]sluice.Decision, len(rs))
		if err := w.store.DecideAll(w.Context(), rs, ds); err != nil {
			return nil, err
		}
		longest, states := time.Duration(0), make([]any, len(ds))
		for i, d := range ds {
			if !d.Allowed {
				return "rejected", nil
			}
			longest = max(longest, d.Delay)
			switch a := rs[i].Limit.Algorithm().(type) {
			case sluice.LeakyBucket:
				states[i] = excess(d.Delay, a.Rate)
			case sluice.Concurrency:
				states[i] = d.Limit - d.Remaining
			default:
				states[i] = d.Remaining
			}
		}
		return fields{"delay": longest.Seconds(), "states": states}, nil
	}, nil
}

// combined decides four limits together. One denies, and no limit is charged: the system commits in
// a second phase, and Sluice has only one.
func combined(w *world) {
	denies := int(w.v.Config.count("rejects_on_commit", 0)) - 1
	rs := make([]sluice.Request, w.v.Config.count("mock_limiters", 0))
	for i := range rs {
		rs[i] = sluice.Request{Limit: sluice.MustLimit(fmt.Sprint("l", i), sluice.FixedWindow{Rate: sluice.PerHour(2)}), Cost: 1}
	}
	ds := make([]sluice.Decision, len(rs))
	for range 2 {
		if d, err := w.store.Decide(w.Context(), rs[denies]); err != nil || !d.Allowed {
			w.Fatalf("the limit that denies later has two units: %+v, %v", d, err)
		}
	}
	if err := w.store.DecideAll(w.Context(), rs, ds); err != nil || ds[denies].Allowed {
		w.Errorf("one limit should deny the batch: %+v, %v", ds, err)
	}
	for i := range rs {
		rs[i].Peek = true
		d, err := w.store.Decide(w.Context(), rs[i])
		if err != nil || d.Remaining != 2 && i != denies || d.Remaining != 0 && i == denies {
			w.Errorf("limit %d afterwards: %+v, %v", i, d, err)
		}
	}
}
