package vectors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// late is what the scheduler of a busy machine may add to a wait.
const late = 2 * time.Second

// waits asks for units and compares when the call returns.
func (w *world) waits(ctx context.Context, l *sluice.Limiter, n int64, want error, least, most time.Duration) {
	w.Helper()
	began := time.Now()
	err := l.Wait(ctx, sluice.Key{}, n)
	if took := time.Since(began); !errors.Is(err, want) || want == nil && err != nil || took < least || took > most {
		w.Errorf("waiting for %d: %v after %v; want %v after %v to %v", n, err, took, want, least, most)
	}
}

func (w *world) bucketOfThree() *sluice.Limiter {
	return w.limiter("wait", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 3})
}

func waitSimple(w *world, _ *vector) {
	l := w.bucketOfThree()
	gone, cancel := context.WithCancel(w.Context())
	cancel()
	w.waits(gone, l, 1, context.Canceled, 0, late)
	w.waits(w.Context(), l, 4, sluice.ErrNever, 0, late)
	w.waits(w.Context(), l, 2, nil, 0, late)
	// A tenth of a second for each that is missing, less the time since.
	w.waits(w.Context(), l, 3, nil, 100*time.Millisecond, 200*time.Millisecond+late)
}

func waitCancel(w *world, _ *vector) {
	// Slower than the vector's by a hundredfold, so that no scheduler is slow beside it.
	l := w.limiter("wait", sluice.TokenBucket{Rate: sluice.Per(1, 10*time.Second), Burst: 3})
	w.waits(w.Context(), l, 2, nil, 0, late)
	ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
	timer := time.AfterFunc(100*time.Millisecond, cancel)
	defer timer.Stop()
	w.waits(ctx, l, 3, context.Canceled, 100*time.Millisecond, late)
	// One is left, as if nobody had asked for three.
	w.waits(w.Context(), l, 1, nil, 0, late)
}

func waitTimeout(w *world, _ *vector) {
	l := w.limiter("wait", sluice.TokenBucket{Rate: sluice.Per(1, time.Minute), Burst: 3})
	ctx, cancel := context.WithTimeout(w.Context(), 2*late)
	defer cancel()
	w.waits(ctx, l, 2, nil, 0, late)
	w.waits(ctx, l, 3, sluice.ErrDeadline, 0, late) // at once, not when the time is over
}

// simultaneous: of fifteen that ask at once, five pass.
func simultaneous(w *world, _ *vector) {
	l := w.limiter("at-once", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5})
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

// everyInterval: an interval is a rate, exactly; none is no limit, which is refused.
func everyInterval(w *world, v *vector) {
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
			w.Errorf("every %v ns is %v a second; want %v", ns, got, want)
		}
	}
}
