package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

const (
	flaps     = 8
	flapTime  = 300 * time.Millisecond
	flapCalm  = 100 * time.Millisecond
	flapHeld  = 10
	flapFreed = 3 * time.Second // for all units, after the last flap
)

// flapLimit has leases that nobody would wait for.
var flapLimit = sluice.MustLimit("flap", sluice.Concurrency{Max: flapHeld, TTL: 10 * time.Minute})

// A flapper is a server that stops and goes on, whose leases are held.
type flapper struct {
	*testing.T
	server *redistest.Server
	direct *redisstore.Store // of another client
	leases []*sluice.Lease
}

// startFlapper takes all leases through a store.
func startFlapper(t *testing.T, a adapters.Adapter, wrap func(sluice.Store) sluice.Store) *flapper {
	t.Helper()
	f := &flapper{T: t, server: redistest.Start(t)}
	f.direct = a.Open(t, adapters.To(f.server.Addr()), redisstore.Options{})
	limiter := sluice.NewLimiter(wrap(a.Open(t, adapters.To(f.server.Addr()), redisstore.Options{})), flapLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		lease, err := limiter.Acquire(redistest.Within(t, redistest.Soon), sluice.StringKey("flap"))
		if err != nil {
			t.Fatal(err)
		}
		// A busy machine may be too slow. Then the guard ends the lease some seconds later.
		if d := lease.Decision(); !d.Allowed || d.Degraded {
			<-tick.C
			continue
		}
		if f.leases = append(f.leases, lease); len(f.leases) == flapHeld {
			return f
		}
	}
	t.Fatal("the store does not grant the leases")
	return nil
}

// flap stops the server several times. It calls each for the number of each stop, while the
// server is stopped.
func (f *flapper) flap(each func(i int)) {
	f.Helper()
	for i := range flaps {
		if err := f.server.Pause(); err != nil {
			f.Fatal(err)
		}
		over := time.After(flapTime)
		each(i)
		<-over
		if err := f.server.Resume(); err != nil {
			f.Fatal(err)
		}
		<-time.After(flapCalm)
	}
}

// release releases a lease, with the patience of a guard.
func (f *flapper) release(l *sluice.Lease) error {
	ctx, cancel := context.WithTimeout(f.Context(), loadDeadline)
	defer cancel()
	return l.Release(ctx)
}

// freed waits until all units are free.
func (f *flapper) freed() {
	f.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := f.direct.Decide(redistest.Within(f, redistest.Soon), sluice.Request{Limit: flapLimit, Key: sluice.StringKey("flap"), Peek: true})
		if err != nil {
			f.Fatal(err)
		}
		if d.Remaining == flapHeld {
			f.Logf("all units were free %v after the last flap", time.Since(began))
			return
		}
		if time.Since(began) > 2*flapFreed {
			f.Fatalf("%d of %d units are free %v after the last flap", d.Remaining, flapHeld, time.Since(began))
		}
		<-tick.C
	}
}

// TestLeasesAreReleasedDespiteFaults releases leases while the server stops and goes on. The outcome of each call
// is unknown, and the call is repeated until the lease has ended.
func TestLeasesAreReleasedDespiteFaults(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		f := startFlapper(t, a, func(s sluice.Store) sluice.Store { return s })
		unknown := 0
		f.flap(func(i int) {
			for _, l := range f.leases[i:min(i+3, flapHeld)] {
				switch err := f.release(l); {
				case errors.Is(err, sluice.ErrUnknownOutcome):
					unknown++
				case err != nil && !errors.Is(err, sluice.ErrEnded) && !errors.Is(err, redisstore.ErrNotSent):
					t.Error(err)
				}
			}
		})
		if unknown == 0 {
			t.Error("no outcome was unknown")
		}
		for i, l := range f.leases {
			err := l.Release(redistest.Within(t, redistest.Soon))
			if err != nil && !errors.Is(err, sluice.ErrEnded) {
				t.Errorf("releasing lease %d again: %v", i, err)
			}
			if err := l.Release(t.Context()); !errors.Is(err, sluice.ErrEnded) {
				t.Errorf("releasing lease %d once more: %v, want that it has ended", i, err)
			}
		}
		f.freed()
	})
}

// TestReleaseOnce releases each lease once through a guard while the server stops and goes on,
// and ignores the error. The guard repeats the call.
func TestReleaseOnce(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		t.Parallel()
		f := startFlapper(t, a, func(s sluice.Store) sluice.Store {
			g, err := guard.New(guard.Options{Store: s, Deadline: loadDeadline})
			if err != nil {
				t.Fatal(err)
			}
			return g
		})
		failed := 0
		f.flap(func(i int) {
			for j := i * flapHeld / flaps; j < (i+1)*flapHeld/flaps; j++ {
				if f.leases[j].Release(t.Context()) != nil {
					failed++
				}
			}
		})
		if failed == 0 {
			t.Error("no release failed")
		}
		f.freed()
	})
}
