package hybrid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
)

// load makes requests of one unit at a rate until stop, and counts them.
type load struct {
	store             *hybrid.Store
	limit             *sluice.Limit
	rate              int        // per second
	chance            *rand.Rand // nil: the times between requests are equal
	requests, allowed int
}

func (l *load) run(t *testing.T, until time.Time) {
	pause := time.Second / time.Duration(l.rate)
	for time.Now().Before(until) {
		d, err := l.store.Decide(context.Background(), sluice.Request{Limit: l.limit, Key: key, Cost: 1})
		if err != nil {
			t.Error(err)
			return
		}
		l.requests++
		if d.Allowed {
			l.allowed++
		}
		if l.chance != nil {
			pause = time.Duration(l.chance.ExpFloat64() * float64(time.Second) / float64(l.rate))
		}
		pass(pause)
	}
}

func (l *load) share() float64 { return float64(l.allowed) / float64(max(1, l.requests)) }

// TestFairShares: with demands of 1:1:8 and a limit of half the sum, each process gets the same
// share of what it requests. At the lowest scale, the small parts of the rate are less than a unit
// in the longest pause, and requests come at random times.
func TestFairShares(t *testing.T) {
	for _, scale := range []int{20, 100, 200, 1000, 5000} {
		terms, sparse := sluice.Hybrid{}, scale < 80
		if sparse { // a longer Sync, so that the process with few requests gets grants
			terms = sluice.Hybrid{Sync: 500 * time.Millisecond, Stranded: 0.25}
		}
		synctest.Test(t, func(t *testing.T) {
			b := newBank(t)
			b.fault = delayed(200 * time.Microsecond)
			limit := bucket(int64(5*scale), int64(5*scale), terms)
			loads := make([]*load, 3)
			for i, rate := range []int{scale, scale, 8 * scale} {
				loads[i] = &load{store: open(t, b, hybrid.Options{Holder: uint64(i + 1), Seed: uint64(i + 1)}), limit: limit, rate: rate}
				if sparse {
					loads[i].chance = rand.New(rand.NewPCG(1, uint64(i)))
				}
			}
			start := time.Now()
			phase := func(length time.Duration) {
				done := make(chan struct{})
				for _, l := range loads {
					l.requests, l.allowed = 0, 0
					go func() { l.run(t, time.Now().Add(length)); done <- struct{}{} }()
				}
				for range loads {
					<-done
				}
			}
			phase(2 * time.Second)
			b.calls, b.decides = 0, 0
			length := 3 * time.Second
			if sparse {
				length *= 20
			}
			phase(length)
			sum := 0
			for _, l := range loads {
				sum += l.allowed
				t.Logf("scale %d: %d of %d: %.3f", scale, l.allowed, l.requests, l.share())
			}
			t.Logf("in all %d, %v, calls %d, decides %d", sum, time.Since(start), b.calls, b.decides)
			for _, l := range loads {
				if got := l.share() / (float64(sum) / (float64(10*scale) * length.Seconds())); got < 0.9 || got > 1.1 {
					t.Errorf("scale %d, %d requests a second: %.3f times the fair share", scale, l.rate, got)
				}
			}
		})
	}
}

// delayed lets claims take a time.
func delayed(d time.Duration) func(context.Context, []driver.Claim, func()) error {
	return func(ctx context.Context, _ []driver.Claim, handle func()) error {
		for half := range 2 {
			select {
			case <-time.After(d / 2):
			case <-ctx.Done():
				return errors.Join(ctx.Err(), sluice.ErrUnknownOutcome)
			}
			if half == 0 {
				handle()
			}
		}
		return nil
	}
}
