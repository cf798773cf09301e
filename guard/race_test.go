package guard_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// Many callers use a store that comes and goes: every call has an answer, what
// is admitted stays within the limits of store and share, all that was taken is given back, and
// nothing is left behind. It runs in real time, so that the race detector sees what happens at once.
func TestFlappingStoresLoseNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	const units = 1000
	h := build(t, guard.Options{Deadline: 5 * time.Millisecond, Retry: 10 * time.Millisecond, Share: sluice.Share{Of: 1, Parts: 10}})
	exact := limit("exact", sluice.FixedWindow{Rate: sluice.Per(units, 100*365*24*time.Hour)})
	leases := limit("leases", sluice.Concurrency{Max: 100, TTL: time.Hour})
	ctx := context.Background()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, with := range []fault{nil, broken, nil, heedful, nil, slow(20 * time.Millisecond), nil, func(context.Context) error { panic("fake") }, nil} {
			h.fake.set(with)
			pass(40 * time.Millisecond)
		}
	}()
	var byStore, byLocal, wrong atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := uint64(0); ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				d, err := h.Decide(ctx, sluice.Request{Limit: exact, Key: key, Cost: 1})
				switch {
				case err != nil:
					wrong.Add(1)
				case d.Allowed && d.Degraded:
					byLocal.Add(1)
				case d.Allowed:
					byStore.Add(1)
				}
				r := sluice.Request{Limit: leases, Key: key, Cost: 1, Member: uint64(i+1)<<32 | n}
				if d, err = h.Decide(ctx, r); err != nil {
					wrong.Add(1)
				}
				out := make([]sluice.Decision, 2)
				if err := h.DecideAll(ctx, []sluice.Request{{Limit: other, Key: key, Cost: 1}, {Limit: bucket, Key: key, Cost: 1}}, out); err != nil {
					wrong.Add(1)
				}
				if d.Allowed {
					_ = h.Release(ctx, r.Charge(&d), 0) // fails while the store is down
				}
			}
		})
	}
	wg.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d decisions gave an error", n)
	}
	if a, b := byStore.Load(), byLocal.Load(); a > units || b > units/10 || a == 0 || b == 0 {
		t.Errorf("%d were admitted by the store and %d locally, of %d and %d", a, b, units, units/10)
	}
	h.recovery()
	patience := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before || h.Stats().InFlight > 0 {
		if time.Now().After(patience) {
			t.Fatalf("%d goroutines, there were %d; %+v", runtime.NumGoroutine(), before, h.Stats())
		}
		runtime.Gosched()
	}
	if st := h.Stats(); st.Opened == 0 || st.Local == 0 || st.Answered == 0 {
		t.Errorf("the store did not come and go: %+v", st)
	}
}
