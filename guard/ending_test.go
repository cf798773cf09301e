package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// When the store does not end a lease, the guard repeats that, and the unit is free soon after
// the outage. A repeated Release finds that the lease has ended.
func TestGuardReleasesAgain(t *testing.T) {
	long := limit("long leases", sluice.Concurrency{Max: 4, TTL: time.Hour})
	lost := func(ctx context.Context) error { // the reply of a call that was made
		return sluice.ErrUnknownOutcome
	}
	for name, fault := range map[string]fault{"broken": broken, "hangs": heedful, "no reply": lost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{Default: sluice.FallbackDeny})
				mine := []*sluice.Lease{h.acquire(long, false), h.acquire(long, false), h.acquire(long, false)}
				h.outage()
				h.fake.set(fault)
				cancelled, cancel := context.WithCancel(t.Context())
				cancel()
				for i, ctx := range []context.Context{t.Context(), cancelled} {
					if err := mine[i].Release(ctx); err == nil {
						t.Error("a lease was released in an outage")
					}
				}
				pass(10 * time.Second)
				if n := held(t, h.fake.Store, long); n != 3 {
					t.Fatalf("%d leases are held in the store during the outage, want 3", n)
				}
				h.fake.set(nil)
				pass(4 * time.Second)
				if n := held(t, h.fake.Store, long); n != 1 {
					t.Errorf("%d leases are held in the store soon after, want 1", n)
				}
				for _, l := range mine {
					if err := l.Release(t.Context()); err != nil {
						t.Errorf("releasing: %v", err)
					}
					if err := l.Release(t.Context()); !errors.Is(err, sluice.ErrEnded) {
						t.Errorf("releasing a second time: %v", err)
					}
				}
				if n := h.Stats().Leases; n != 0 {
					t.Errorf("%d leases are remembered in the end", n)
				}
			})
		})
	}
}

// A lease that its member has taken again after a Release that failed stays.
func TestTakenAgainAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackDeny})
		r := sluice.Request{Limit: leases, Key: key, Cost: 1, Member: 7}
		d := h.decide(r)
		h.fake.set(broken)
		if err := h.Release(t.Context(), r.Charge(&d), 0); err == nil {
			t.Error("a lease was released in an outage")
		}
		h.fake.set(nil)
		if d = h.decide(r); !d.Allowed || d.Degraded {
			t.Fatalf("taken again: %+v", d)
		}
		for range 3 {
			pass(4 * time.Second)
			if n := held(t, h.fake.Store, leases); n != 1 {
				t.Fatalf("%d leases are held, want 1", n)
			}
			d = h.decide(r)
		}
		if err := h.Release(t.Context(), r.Charge(&d), 0); err != nil {
			t.Errorf("releasing: %v", err)
		}
	})
}
