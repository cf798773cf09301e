package sluice_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// restyTraffic is OpenResty's limit.traffic.combine: several limiters decide as one.
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
			err = fmt.Errorf("no such limiter: %q", kind)
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
		if err := w.store.DecideAll(w.ctx, rs, ds); err != nil {
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
