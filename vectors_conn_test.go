package sluice_test

import (
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// connLimit is limit.conn's bound.
func connLimit(c fields) sluice.Concurrency {
	return sluice.Concurrency{
		Max: c.count("max", 0), Queue: c.count("burst", 0),
		TTL: 24 * time.Hour, Latency: span(c.num("unit_delay", 0), time.Second),
	}
}

// conns holds the connections that are open, the oldest first.
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
					return w.store.Cancel(w.ctx, open)
				}
				return w.store.Release(w.ctx, open, span(s.num("latency", 0), time.Second))
			})
		case "uncommit":
			return c.leave(k, func(open sluice.Charge) error { return w.store.Cancel(w.ctx, open) })
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
	d, err := c.store.Decide(c.ctx, r)
	if err != nil {
		return nil, err
	}
	conn := d.Limit - d.Remaining
	if !commit {
		conn++ // what remains is before the one that was not taken
	} else if d.Allowed {
		c.open[k] = append(c.open[k], r.Charge(&d))
	}
	return passed(d, fields{"delay": d.Delay.Seconds(), "conn": conn}), nil
}

// leave ends the oldest connection and returns how many are left.
func (c *conns) leave(k sluice.Key, end func(sluice.Charge) error) (any, error) {
	open := c.open[k]
	if len(open) == 0 {
		return nil, errors.New("nobody is here to leave")
	}
	c.open[k] = open[1:]
	open[0].Limit = c.limit
	if err := end(open[0]); err != nil {
		return nil, err
	}
	d, err := c.store.Decide(c.ctx, sluice.Request{Limit: c.limit, Key: k, Peek: true})
	return d.Limit - d.Remaining, err
}

// unitDelay asks what the last place in the queue would wait, and for how many turns.
func (c *conns) unitDelay(k sluice.Key) (any, error) {
	a := c.limit.Algorithm().(sluice.Concurrency)
	look := sluice.Request{Limit: c.limit, Key: k, Peek: true}
	d, err := c.store.Decide(c.ctx, look)
	if err != nil {
		return nil, err
	}
	look.Cost, look.Member = d.Remaining, c.next+1
	if open := c.open[k]; d.Remaining == 0 {
		look.Cost, look.Member = 1, open[len(open)-1].Member
	}
	turns := (d.Limit - 1) / a.Max
	if d, err = c.store.Decide(c.ctx, look); err != nil || turns == 0 {
		return nil, errors.Join(err, errors.New("nobody can queue"))
	}
	return d.Delay.Seconds() / float64(turns), nil
}
