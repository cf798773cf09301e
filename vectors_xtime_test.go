package sluice_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// xTime is a limiter of golang.org/x/time/rate.
type xTime struct {
	*world
	*sluice.Limiter
	bucket sluice.TokenBucket
	floor  int64
	// changed is when the limit was changed, if its state is to be settled.
	changed int64
	held    map[string]*sluice.Reservation
	// taken are the reservations that were not cancelled, and when they act.
	taken map[*sluice.Reservation]int64
	units map[*sluice.Reservation]int64
	// The largest rate and burst that were in force.
	rate, burst float64
	// rose says that the rate was changed.
	rose bool
}

func xTimeRate(w *world) (stepper, error) {
	c := w.v.Config
	x := &xTime{
		world: w, changed: -1, bucket: sluice.TokenBucket{Rate: perSecond(c.num("limit", 0)), Burst: c.count("burst", 0)},
		held: map[string]*sluice.Reservation{}, taken: map[*sluice.Reservation]int64{}, units: map[*sluice.Reservation]int64{},
	}
	x.setBurst(x.bucket.Burst)
	var err error
	if x.Limiter, err = w.limiter("bucket", x.bucket); err != nil {
		return nil, err
	}
	x.grow()
	w.laws = append(w.laws, x.law)
	return x.step, nil
}

// setBurst changes the burst. A limit has one of 1 at least: one of none is a bucket
// of one unit, which is kept.
func (x *xTime) setBurst(n int64) {
	x.bucket.Burst, x.floor = n, 0
	if n == 0 {
		x.bucket.Burst, x.floor = 1, 1
	}
}

func (x *xTime) grow() {
	x.rate, x.burst = max(x.rate, inSecond(x.bucket.Rate)), max(x.burst, float64(x.bucket.Burst))
	x.back = max(x.back, x.bucket.Rate.Period())
}

func (x *xTime) step(s fields) (any, error) {
	if x.now < x.latest {
		x.excuse = clockRewind
	}
	if x.changed >= 0 && x.changed != x.now {
		// x/time settles at the moment of a change, and ours with the next request.
		at := x.changed
		if x.changed = -1; x.now > at {
			if err := x.settle(x.Limiter, sluice.Key{}, at); err != nil {
				return nil, err
			}
		}
	}
	tokens, err := x.tokens()
	if err != nil {
		return nil, err
	}
	x.also = fields{"tokens_before": tokens}
	switch s.text("op") {
	case "allow":
		r, err := x.take(s.n(), 0)
		return err == nil && r.OK(), err
	case "reserve":
		longest := forever
		if s["max_wait"] != nil {
			longest = span(s.num("max_wait", 0), x.unit())
		}
		r, err := x.take(s.n(), longest)
		if err != nil {
			return nil, err
		}
		x.held[s.text("id")] = r
		act := time.Duration(x.now)*time.Microsecond + r.Decision().Delay
		return fields{"ok": r.OK(), "act": x.in(act)}, nil
	case "cancel":
		r := x.held[s.text("id")]
		if r == nil {
			return unknown(s)
		}
		delete(x.taken, r)
		return nil, r.Cancel(x.ctx)
	case "tokens":
		return tokens, nil
	case "set_limit":
		x.bucket.Rate, x.rose = perSecond(s.num("limit", 0)), true
		return nil, x.change()
	case "set_burst":
		x.setBurst(s.count("burst", 0))
		return nil, x.change()
	}
	return unknown(s)
}

func (x *xTime) change() error {
	x.grow()
	x.changed = x.now
	return change(x.Limiter, x.bucket)
}

func (x *xTime) take(n int64, longest time.Duration) (*sluice.Reservation, error) {
	if x.floor > 0 && n > 0 {
		d, err := x.store.Decide(x.ctx, sluice.Request{Limit: x.Limit(), Cost: n, Floor: x.floor, MaxWait: longest})
		if err == nil && d.Allowed {
			err = errors.New("no burst, and units pass")
		}
		return &sluice.Reservation{}, err
	}
	r, err := x.Reserve(x.ctx, sluice.Key{}, n, longest)
	if err != nil {
		return nil, err
	}
	if d := r.Decision(); r.OK() && n > 0 {
		// Time stands still while it goes back: see xTime.law.
		x.taken[r] = max(x.latest, x.now+int64(d.Delay/time.Microsecond))
		x.units[r] = n
	}
	return r, nil
}

// tokens returns what is in the bucket, less than nothing if it owes: the burst less
// what is refilled until it is full.
func (x *xTime) tokens() (float64, error) {
	d, err := x.Peek(x.ctx, sluice.Key{}, 0)
	tokens := float64(x.bucket.Burst-x.floor) - d.ResetAfter.Seconds()*inSecond(x.bucket.Rate)
	near := inSecond(x.bucket.Rate) * 1e-6
	if whole := math.Round(tokens); math.Abs(tokens-whole) <= near {
		tokens = whole
	}
	return tokens, err
}

// law checks that no interval of time that does not go back admits more than its
// length gives, and a burst. Reservations of a slower rate keep their moments when
// the rate rises: then it is the interval from the first one that counts.
func (x *xTime) law() {
	begin := slices.Min(append(slices.Collect(maps.Values(x.taken)), math.MaxInt64))
	for first, from := range x.taken {
		if x.rose && from > begin {
			continue
		}
		units, last := 0.0, from
		for r, at := range x.taken {
			if at >= from {
				units, last = units+float64(x.units[r]), max(last, at)
			}
		}
		if most := x.burst + x.rate*float64(last-from+1)/1e6; units > most {
			x.t.Errorf("from the reservation of %d units at %d µs on %v are admitted, more than %v", x.units[first], from, units, most)
		}
	}
}
