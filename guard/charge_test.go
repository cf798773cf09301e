package guard_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// Units go back to the layer that granted them, also when another layer answers by then.
func TestReservationsAcrossAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 2}})
		ctx := t.Context()
		l := sluice.NewLimiter(h, window)
		reserve := func(n int64, degraded bool) *sluice.Reservation {
			t.Helper()
			r, err := l.ReserveN(ctx, key, n, 0)
			if err != nil || !r.OK() || r.Decision().Degraded != degraded {
				t.Fatalf("reserving %d units: %+v, %v; want degraded %v", n, r, err, degraded)
			}
			return r
		}
		locally := func() int64 {
			t.Helper()
			was := h.fake.fault.Load()
			defer h.fake.fault.Store(was)
			h.fake.set(broken)
			return used(t, h, window)
		}
		first, second := reserve(10, false), reserve(20, false)
		h.outage()
		third, fourth := reserve(7, true), reserve(9, true)
		if got := locally(); got != 16 {
			t.Fatalf("%d used locally, want 16", got)
		}
		// The store cannot take the charge back, and the local store must not.
		if err := first.Cancel(ctx); !errors.Is(err, guard.ErrOpen) || errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Errorf("canceling while the store is down: %v", err)
		}
		if err := third.Settle(ctx, 3); err != nil {
			t.Errorf("settling what was granted locally: %v", err)
		}
		if a, b := locally(), used(t, h.fake.Store, window); a != 12 || b != 30 {
			t.Errorf("%d used locally and %d in the store, want 12 and 30", a, b)
		}
		h.recovery()
		// The end can be tried again, and what is local stays local.
		if err := first.Settle(ctx, 4); err != nil {
			t.Errorf("settling after recovery: %v", err)
		}
		if err := fourth.Settle(ctx, 1); err != nil {
			t.Errorf("settling after recovery: %v", err)
		}
		if err := second.Settle(ctx, 0); err != nil {
			t.Errorf("settling after recovery: %v", err)
		}
		if b := used(t, h.fake.Store, window); b != 4 {
			t.Errorf("%d used in the store, want 4", b)
		}
		h.outage()
		if a := locally(); a != 4 {
			t.Errorf("%d used locally, want 4", a)
		}
	})
}

// A reservation that waits has the numbers of the local limit: its ticks, and its floor.
func TestLocalReservationInDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 3}})
		h.outage()
		l := limit("debt", sluice.TokenBucket{Rate: sluice.PerSecond(7), Burst: 30})
		h.take(l, 8)
		r := sluice.Request{Limit: l, Key: key, Cost: 4, Floor: 9, MaxWait: time.Hour}
		d := h.decide(r)
		if !d.Allowed || d.Delay <= 0 || d.Limit != 10 {
			t.Fatalf("want a local reservation that waits, got %+v", d)
		}
		if err := h.Cancel(t.Context(), r.Charge(&d)); err != nil {
			t.Fatal(err)
		}
		if d := h.take(l, 0); d.Remaining != 2 {
			t.Errorf("canceled: %+v", d)
		}
	})
}

// A charge of the budget that new keys share ends there, marked as it is.
func TestLocalOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1})
		if err != nil {
			t.Fatal(err)
		}
		h := build(t, guard.Options{Local: local})
		h.outage()
		r := sluice.Request{Limit: window, Cost: 3}
		var d sluice.Decision
		for i := 0; !d.Overflow; i++ {
			if i > 1<<17 {
				t.Fatal("the local store takes any number of keys")
			}
			r.Key = sluice.NewKey("key", time.Duration(i).String())
			d = h.decide(r)
		}
		if err := h.Settle(t.Context(), r.Charge(&d), 1); err != nil {
			t.Fatal(err)
		}
		if after := h.decide(r); !after.Overflow || after.Remaining != d.Remaining-1 {
			t.Errorf("before %+v, after %+v", d, after)
		}
	})
}

// What was allowed without counting ends without effect, on anybody.
func TestEndsOfUncountedChargesDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackAllow})
		ctx := t.Context()
		h.take(window, 50)
		h.outage()
		r := sluice.Request{Limit: window, Key: key, Cost: 5}
		d := h.decide(r)
		h.recovery()
		calls := h.fake.calls.Load()
		if err := h.Cancel(ctx, r.Charge(&d)); err != nil {
			t.Errorf("canceling: %v", err)
		}
		if err := h.Settle(ctx, r.Charge(&d), 50); err != nil {
			t.Errorf("settling: %v", err)
		}
		var bad *sluice.RequestError
		if err := h.Settle(ctx, r.Charge(&d), -1); !errors.As(err, &bad) {
			t.Errorf("settling at a negative cost: %v", err)
		}
		if err := h.Release(ctx, r.Charge(&d), 0); !errors.Is(err, sluice.ErrUnsupported) {
			t.Errorf("the release of a charge without a lease: %v", err)
		}
		if h.fake.calls.Load() != calls || used(t, h.fake.Store, window) != 50 {
			t.Errorf("%d calls of the store, %d used", h.fake.calls.Load()-calls, used(t, h.fake.Store, window))
		}
		if err := h.Settle(ctx, sluice.Charge{}, 1); !errors.As(err, &bad) {
			t.Errorf("a charge of nothing: %v", err)
		}
		if err := h.Reset(ctx, nil, key); !errors.As(err, &bad) {
			t.Errorf("a reset of nothing: %v", err)
		}
	})
}
