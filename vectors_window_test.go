package sluice_test

import (
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// fixedWindow is a count in windows that begin with a request, or, if the style
// says so, at multiples of their length.
func fixedWindow(w *world) (stepper, error) {
	c := w.v.Config
	l, err := w.limiter("window", sluice.FixedWindow{
		Rate:   sluice.Per(c.count("limit", 0), span(c.num("window", 0), w.unit())),
		Opened: !strings.Contains(c.text("style"), "align"),
	})
	if err != nil {
		return nil, err
	}
	return takes(w, l), nil
}

// subWindow is a sliding window of cells.
func subWindow(w *world) (stepper, error) {
	c := w.v.Config
	window, cell := span(c.num("window", 0), w.unit()), span(c.num("cell", 1), w.unit())
	l, err := w.limiter("window", sluice.SlidingWindow{Rate: sluice.Per(c.count("limit", 0), window), Cells: int(window / cell)})
	if err != nil {
		return nil, err
	}
	return takes(w, l), nil
}

// restyCount is OpenResty's limit.count: a window that opens with its first call
// and answers what remains.
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
				d, err := l.Peek(w.ctx, k, s.n())
				return passed(d, d.Remaining-s.n()), err
			}
			r, err := l.Reserve(w.ctx, k, s.n(), 0)
			if err != nil {
				return nil, err
			}
			if r.OK() {
				taken[k] = append(taken[k], r)
			}
			return passed(r.Decision(), r.Decision().Remaining), nil
		case "uncommit":
			if n := len(taken[k]); n > 0 {
				if err := taken[k][n-1].Settle(w.ctx, 0); err != nil {
					return nil, err
				}
				taken[k] = taken[k][:n-1]
			}
			d, err := l.Peek(w.ctx, k, 0)
			return d.Remaining, err
		}
		return unknown(s)
	}, nil
}

func countLimit(c fields) sluice.Algorithm {
	return sluice.FixedWindow{Rate: sluice.Per(c.count("limit", 0), span(c.num("window", 0), time.Second)), Opened: true}
}

// passed is the result of a call that passes, or "rejected".
func passed(d sluice.Decision, result any) any {
	if !d.Allowed {
		return "rejected"
	}
	return result
}
