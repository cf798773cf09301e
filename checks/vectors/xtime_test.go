package vectors

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// xTime is a limiter of golang.org/x/time/rate.
type xTime struct {
	*world
	*sluice.Limiter
	bucket sluice.TokenBucket
	floor  int64
	// changed is when the limit changed, until the state is converted; otherwise -1.
	changed int64
	held    map[string]*sluice.Reservation
	// taken holds when each reservation acts that was not cancelled.
	taken map[*sluice.Reservation]int64
	units map[*sluice.Reservation]int64
	// rate and burst are the largest ones so far.
	rate, burst float64
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

// setBurst changes the burst. NewLimit refuses a burst of zero: it becomes a bucket of one unit with a
// floor of one.
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
	if x.now() < x.latest {
		x.excuse = clockRewind
	}
	if x.changed >= 0 && x.changed != x.now() {
		// x/time converts the state when the limit changes, and Sluice with the next request.
		at := x.changed
		if x.changed = -1; x.now() > at {
			if err := x.convert(x.Limiter, sluice.Key{}, at); err != nil {
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
		act := time.Duration(x.now())*time.Microsecond + r.Decision().Delay
		return fields{"ok": r.OK(), "act": x.in(act)}, nil
	case "cancel":
		r := x.held[s.text("id")]
		if r == nil {
			return unknown(s)
		}
		delete(x.taken, r)
		if err := r.Cancel(x.Context()); !errors.Is(err, sluice.ErrActed) {
			return nil, err
		}
		return nil, nil // x/time does not say that it gave nothing back
	case "tokens":
		return tokens, nil
	case "set_limit":
		rate := perSecond(s.num("limit", 0))
		if acts := slices.Collect(maps.Values(x.taken)); inSecond(rate) > inSecond(x.bucket.Rate) && slices.Max(append(acts, 0)) > x.now() {
			x.excuse = sameMoment
		}
		x.bucket.Rate = rate
		return nil, x.change()
	case "set_burst":
		x.setBurst(s.count("burst", 0))
		return nil, x.change()
	}
	return unknown(s)
}

func (x *xTime) change() error {
	x.grow()
	x.changed = x.now()
	return change(x.Limiter, x.bucket)
}

func (x *xTime) take(n int64, longest time.Duration) (*sluice.Reservation, error) {
	if x.floor > 0 && n > 0 {
		d, err := x.store.Decide(x.Context(), sluice.Request{Limit: x.Limit(), Cost: n, Floor: x.floor, MaxWait: longest})
		if err == nil && d.Allowed {
			err = errors.New("the burst is zero, and units pass")
		}
		return &sluice.Reservation{}, err
	}
	r, err := x.ReserveN(x.Context(), sluice.Key{}, n, longest)
	if err != nil {
		return nil, err
	}
	if d := r.Decision(); r.OK() && n > 0 {
		// A step back in time counts as the latest time: see xTime.law.
		x.taken[r] = max(x.latest, x.now()+int64(d.Delay/time.Microsecond))
		x.units[r] = n
	}
	return r, nil
}

// tokens returns the units in the bucket, which are negative for a debt. It is the burst minus the
// units that refill until the bucket is full.
func (x *xTime) tokens() (float64, error) {
	d, err := x.PeekN(x.Context(), sluice.Key{}, 0)
	tokens := float64(x.bucket.Burst-x.floor) - d.ResetAfter.Seconds()*inSecond(x.bucket.Rate)
	near := inSecond(x.bucket.Rate) * 1e-6
	if whole := math.Round(tokens); math.Abs(tokens-whole) <= near {
		tokens = whole
	}
	return tokens, err
}

// law checks that no interval admits more than the burst and what the rate gives in its length.
func (x *xTime) law() {
	for first, from := range x.taken {
		units, last := 0.0, from
		for r, at := range x.taken {
			if at >= from {
				units, last = units+float64(x.units[r]), max(last, at)
			}
		}
		if most := x.burst + x.rate*float64(last-from+1)/1e6; units > most {
			x.Errorf("from the reservation of %d units at %d µs: %v units are admitted, more than %v", x.units[first], from, units, most)
		}
	}
}

// late is how much a busy machine may add to a wait.
const late = 2 * time.Second

// waits waits for n units and compares the error and the duration.
func (w *world) waits(ctx context.Context, l *sluice.Limiter, n int64, want error, least, most time.Duration) {
	w.Helper()
	began := time.Now()
	err := l.WaitN(ctx, sluice.Key{}, n)
	if took := time.Since(began); !errors.Is(err, want) || want == nil && err != nil || took < least || took > most {
		w.Errorf("waiting for %d: %v after %v; want %v after %v to %v", n, err, took, want, least, most)
	}
}

func (w *world) bucketOfThree() *sluice.Limiter {
	return w.mustLimiter("wait", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 3})
}

func waitSimple(w *world) {
	l := w.bucketOfThree()
	gone, cancel := context.WithCancel(w.Context())
	cancel()
	w.waits(gone, l, 1, context.Canceled, 0, late)
	w.waits(w.Context(), l, 4, sluice.ErrNever, 0, late)
	w.waits(w.Context(), l, 2, nil, 0, late)
	// Each missing unit takes a tenth of a second, and some time has passed.
	w.waits(w.Context(), l, 3, nil, 100*time.Millisecond, 200*time.Millisecond+late)
}

func waitCancel(w *world) {
	// The rate is a hundredth of the vector's, so that a slow scheduler does not matter.
	l := w.mustLimiter("wait", sluice.TokenBucket{Rate: sluice.Per(1, 10*time.Second), Burst: 3})
	w.waits(w.Context(), l, 2, nil, 0, late)
	ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
	timer := time.AfterFunc(100*time.Millisecond, cancel)
	defer timer.Stop()
	w.waits(ctx, l, 3, context.Canceled, 100*time.Millisecond, late)
	// One unit is left: the cancelled wait took none.
	w.waits(w.Context(), l, 1, nil, 0, late)
}

func waitTimeout(w *world) {
	l := w.mustLimiter("wait", sluice.TokenBucket{Rate: sluice.Per(1, time.Minute), Burst: 3})
	ctx, cancel := context.WithTimeout(w.Context(), 2*late)
	defer cancel()
	w.waits(ctx, l, 2, nil, 0, late)
	w.waits(ctx, l, 3, sluice.ErrDeadline, 0, late) // at once, not at the deadline
}

// simultaneous sends fifteen requests at once. Five pass.
func simultaneous(w *world) {
	l := w.mustLimiter("at-once", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5})
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 15 {
		all.Go(func() {
			d, err := l.Allow(w.Context(), sluice.Key{})
			if err != nil {
				w.Error(err)
			}
			if d.Allowed {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 5 {
		w.Errorf("%d of 15 pass", passed.Load())
	}
}

// everyInterval checks that the rate of an interval is exact. NewLimit refuses an interval of zero.
func everyInterval(w *world) {
	v := w.v
	if len(v.EveryNS) < 10 {
		w.Fatalf("the vector has %d intervals", len(v.EveryNS))
	}
	for _, pair := range v.EveryNS {
		ns, _ := pair[0].(float64)
		want, finite := pair[1].(float64)
		limit, err := sluice.NewLimit("every", sluice.TokenBucket{Rate: sluice.Every(time.Duration(ns))})
		if (err == nil) != finite {
			w.Errorf("every %v ns: %v", ns, err)
		}
		if err != nil {
			continue
		}
		rate := limit.Algorithm().(sluice.TokenBucket).Rate
		if got := float64(rate.Count()) / rate.Period().Seconds(); got < want*(1-1e-12) || got > want*(1+1e-12) {
			w.Errorf("every %v ns is %v per second; want %v", ns, got, want)
		}
	}
}
