package sluice_test

import (
	"time"

	"github.com/sluicehq/sluice"
)

// window is a limiter whose takes are true or false.
type window struct {
	*world
	limiter *sluice.Limiter
}

// subWindow is the sliding window of cells. Ours counts one more: the one that
// is leaving.
func subWindow(w *world, v *vector) (adapter, error) {
	c := fields(v.Config)
	period := time.Duration(micros(c.rat("window", 0), v.Unit)) * time.Microsecond
	cells := c.int("window", 0) / c.int("cell", 1)
	return newWindow(w, sluice.SlidingWindow{Rate: sluice.Per(c.int("limit", 0), period), Cells: int(cells)})
}

// articleWindow is the article's fixed window: opened by the first request, or,
// in the styles that say so, aligned.
func articleWindow(w *world, v *vector) (adapter, error) {
	c := fields(v.Config)
	period := time.Duration(micros(c.rat("window", 0), v.Unit)) * time.Microsecond
	style := c.text("style")
	return newWindow(w, sluice.FixedWindow{
		Rate:   sluice.Per(c.int("limit", 0), period),
		Opened: style != "aligned" && style != "clock" && style != "calendar",
	})
}

func newWindow(w *world, a sluice.Algorithm) (adapter, error) {
	l, err := limit("window", a)
	if err != nil {
		return nil, err
	}
	return &window{w, sluice.NewLimiter(w, l)}, nil
}

func (w *window) do(s step) (any, error) {
	if s.text("op") != "take_many" {
		d, err := w.limiter.AllowN(w.ctx, s.key(), s.int("n", 1))
		return d.Allowed, err
	}
	taken := 0
	for range s.int("n", 1) {
		d, err := w.limiter.Allow(w.ctx, s.key())
		if err != nil {
			return nil, err
		}
		if d.Allowed {
			taken++
		}
	}
	return taken, nil
}
