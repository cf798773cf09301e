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

var leases = limit("leases", sluice.Concurrency{Max: 4, TTL: 10 * time.Second})

// held returns how many leases are held in a store.
func held(t *testing.T, s sluice.Store, l *sluice.Limit) int64 {
	t.Helper()
	return used(t, s, l)
}

// acquire takes a lease through a Limiter.
func (h *house) acquire(l *sluice.Limit, degraded bool) *sluice.Lease {
	h.Helper()
	lease, err := sluice.NewLimiter(h, l).Acquire(h.Context(), key)
	if err != nil || !lease.OK() || lease.Decision().Degraded != degraded {
		h.Fatalf("acquiring: %+v, %v", lease, err)
	}
	return lease
}

func (h *house) renew(l *sluice.Lease, degraded bool) sluice.Decision {
	h.Helper()
	d, err := l.Renew(h.Context())
	if err != nil || !d.Allowed || d.Degraded != degraded {
		h.Fatalf("renewing: %+v, %v", d, err)
	}
	return d
}

// A lease of the store lives through an outage, and is the store's again afterwards.
func TestLeaseOfTheStore(t *testing.T) {
	for _, fallback := range []sluice.Fallback{sluice.FallbackLocal, sluice.FallbackAllow} {
		t.Run(fallback.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{Default: fallback, Share: sluice.Share{Of: 1, Parts: 4}})
				mine := []*sluice.Lease{h.acquire(leases, false), h.acquire(leases, false), h.acquire(leases, false)}
				h.outage()
				// More are held than the share has units, for longer than the time to live.
				for range 5 {
					pass(6 * time.Second)
					for _, l := range mine {
						h.fake.set(broken)
						if d := h.renew(l, true); d.Limit != 4 || d.ResetAfter != 10*time.Second {
							t.Errorf("a renewed lease of the store: %+v, want its limit of 4 and its whole time", d)
						}
					}
				}
				if st := h.Stats(); st.Held != 15 || st.Leases != 3 {
					t.Errorf("want 3 leases, held 15 times, got %+v", st)
				}
				if n := held(t, h.fake.Store, leases); n != 0 {
					t.Fatalf("%d are held in the store, want 0: their time to live has ended", n)
				}
				if err := mine[2].Release(t.Context()); !errors.Is(err, guard.ErrOpen) {
					t.Errorf("releasing while the store is down: %v", err)
				}
				h.recovery()
				// The store had forgotten them, and takes them again.
				h.renew(mine[0], false)
				h.renew(mine[1], false)
				if n := held(t, h.fake.Store, leases); n != 2 {
					t.Errorf("%d are held in the store, want 2", n)
				}
				if err := mine[0].Release(t.Context()); err != nil {
					t.Errorf("releasing: %v", err)
				}
				if err := mine[1].Release(t.Context()); err != nil {
					t.Errorf("releasing: %v", err)
				}
				if err := mine[2].Release(t.Context()); !errors.Is(err, sluice.ErrLeaseLost) {
					t.Errorf("releasing what was not renewed: %v", err)
				}
				if st := h.Stats(); st.Leases != 0 || held(t, h.fake.Store, leases) != 0 {
					t.Errorf("in the end: %+v", st)
				}
			})
		})
	}
}

// With the fallback Deny, a lease of the store is held for as long as the store
// surely holds it.
func TestLeaseOfTheStoreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackDeny})
		mine := h.acquire(leases, false)
		pass(2 * time.Second)
		h.renew(mine, false)
		h.outage()
		pass(5 * time.Second)
		h.fake.set(heedful)
		if d := h.renew(mine, true); d.ResetAfter > 5*time.Second {
			t.Errorf("a lease is held for longer than the store holds it: %+v", d)
		}
		pass(4900 * time.Millisecond)
		h.renew(mine, true)
		pass(100 * time.Millisecond)
		if d, err := mine.Renew(t.Context()); !errors.Is(err, sluice.ErrLeaseLost) || d.Reason != sluice.ReasonStoreError {
			t.Errorf("when the store may have given it to another: %+v, %v", d, err)
		}
	})
}

// The time for which the store certainly holds a lease counts from the request.
func TestLeaseOfASlowStoreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackDeny})
		h.fake.set(slow(40 * time.Millisecond))
		mine := h.acquire(leases, false)
		h.fake.set(broken)
		pass(9970 * time.Millisecond)
		if d, err := mine.Renew(t.Context()); !errors.Is(err, sluice.ErrLeaseLost) {
			t.Errorf("10s after the question: %+v, %v", d, err)
		}
	})
}

// A lease that the store reports as lost is forgotten.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackDeny})
		mine := h.acquire(leases, false)
		if err := h.Reset(t.Context(), leases, key); err != nil {
			t.Fatal(err)
		}
		r := sluice.Request{Limit: leases, Key: key, Cost: 4, Member: 1}
		if d, err := h.fake.Store.Decide(t.Context(), r); err != nil || !d.Allowed {
			t.Fatalf("taking what was reset: %+v, %v", d, err)
		}
		if d, err := mine.Renew(t.Context()); !errors.Is(err, sluice.ErrLeaseLost) || d.Degraded {
			t.Errorf("renewing a lost lease: %+v, %v; want ErrLeaseLost from the store", d, err)
		}
		if n := h.Stats().Leases; n != 0 {
			t.Errorf("%d leases are remembered, want 0", n)
		}
		h.outage()
		if d, err := mine.Renew(t.Context()); !errors.Is(err, sluice.ErrLeaseLost) || !d.Degraded {
			t.Errorf("while the store is down: %+v, %v", d, err)
		}
	})
}

// A lease of the fallback stays in the local store until it is released.
func TestLeaseOfTheLocalStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 2}})
		h.outage()
		a, b := h.acquire(leases, true), h.acquire(leases, true)
		denied, err := sluice.NewLimiter(h, leases).Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if d := denied.Decision(); d.Allowed || !d.Degraded || d.Limit != 2 {
			t.Errorf("beyond the share: %+v", d)
		}
		h.recovery()
		for range 3 {
			pass(6 * time.Second)
			h.renew(a, true)
			h.renew(b, true)
		}
		if n := held(t, h.fake.Store, leases); n != 0 {
			t.Errorf("%d are held in the store, want 0", n)
		}
		if err := a.Release(t.Context()); err != nil {
			t.Errorf("releasing: %v", err)
		}
		// A lease that was lost is taken again in the store, and released there.
		pass(11 * time.Second)
		h.renew(b, false)
		if n := held(t, h.fake.Store, leases); n != 1 {
			t.Errorf("%d are held in the store, want 1", n)
		}
		if err := b.Release(t.Context()); err != nil {
			t.Errorf("releasing: %v", err)
		}
		if n := held(t, h.fake.Store, leases); n != 0 {
			t.Errorf("%d are held in the store, want 0", n)
		}
	})
}

// A lease of the store that was lost in an outage is another layer's when it is taken again.
func TestLeaseTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		l := h.acquire(leases, false)
		h.outage()
		pass(11 * time.Second)
		h.fake.set(broken)
		if d := h.renew(l, true); d.Remaining != 3 {
			t.Errorf("taken again: %+v", d)
		}
		h.recovery()
		calls := h.fake.calls.Load()
		if err := l.Release(t.Context()); err != nil || h.fake.calls.Load() != calls {
			t.Errorf("releasing it: %v, and %d calls of the store", err, h.fake.calls.Load()-calls)
		}
		if st := h.Stats(); st.Leases != 0 {
			t.Errorf("leases are remembered after their release: %+v", st)
		}
	})
}

// A lease that was allowed without counting calls no store.
func TestLeaseAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackAllow})
		h.outage()
		l := h.acquire(leases, true)
		h.recovery()
		calls := h.fake.calls.Load()
		h.renew(l, true)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("releasing: %v", err)
		}
		if n := h.fake.calls.Load() - calls; n != 0 {
			t.Errorf("%d calls of the store", n)
		}
	})
}

// A queued member may not run because the store is down.
func TestLeaseInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{})
		l := limit("queue", sluice.Concurrency{Max: 1, Queue: 2, TTL: 10 * time.Second, Latency: 3 * time.Second})
		running, waiting := h.acquire(l, false), h.acquire(l, false)
		h.outage()
		h.fake.set(broken)
		if d := h.renew(running, true); d.Delay != 0 {
			t.Errorf("the running member: %+v", d)
		}
		if d := h.renew(waiting, true); d.Delay != 3*time.Second {
			t.Errorf("the waiting member: %+v", d)
		}
		h.recovery()
		if err := running.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := h.renew(waiting, false); d.Delay != 0 {
			t.Errorf("when it may run: %+v", d)
		}
	})
}

// Looking at a renewal changes nothing.
func TestPeekAtLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 4}})
		r := sluice.Request{Limit: leases, Key: key, Cost: 1, Member: 1}
		peek := r
		peek.Peek = true
		h.decide(peek)
		if n := h.Stats().Leases; n != 0 {
			t.Errorf("%d leases are remembered of a look", n)
		}
		h.decide(r)
		h.outage()
		local := r
		local.Member = 2
		h.decide(local)
		for range 3 {
			pass(4 * time.Second)
			h.fake.set(broken)
			h.decide(peek)
			localPeek := local
			localPeek.Peek = true
			h.decide(localPeek)
		}
		if d := h.decide(peek); d.Remaining != 1 {
			t.Errorf("both have ended, and a look says %+v", d)
		}
		peek.Member = 3
		remembered := h.Stats().Leases
		if d := h.decide(peek); !d.Allowed || d.Remaining != 1 || h.Stats().Held != 2 {
			t.Errorf("a look at a new one: %+v, %+v", d, h.Stats())
		}
		if err := h.DecideAll(t.Context(), []sluice.Request{peek, peek}, make([]sluice.Decision, 2)); err != nil {
			t.Fatal(err)
		}
		if n := h.Stats().Leases; n != remembered {
			t.Errorf("%d leases are remembered after looks, %d before", n, remembered)
		}
	})
}

// Leases in batches belong to the layer that answered the batch.
func TestLeasesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Fallback: by(map[string]sluice.Fallback{"nobody": sluice.FallbackAllow, "never": sluice.FallbackDeny})})
		ctx := t.Context()
		nobody := limit("nobody", sluice.Concurrency{Max: 4, TTL: 10 * time.Second})
		never := limit("never", sluice.Concurrency{Max: 4, TTL: 10 * time.Second})
		rs := []sluice.Request{
			{Limit: leases, Key: key, Cost: 1, Member: 1},
			{Limit: nobody, Key: key, Cost: 1, Member: 1},
			{Limit: never, Key: key, Cost: 1, Member: 1},
		}
		out := make([]sluice.Decision, 3)
		batch := func(degraded bool) {
			t.Helper()
			if err := h.DecideAll(ctx, rs[:len(out)], out); err != nil {
				t.Fatal(err)
			}
			for i, d := range out {
				if !d.Allowed || d.Degraded != degraded {
					t.Fatalf("decision %d: %+v", i, d)
				}
			}
		}
		batch(false)
		if n := h.Stats().Leases; n != 3 {
			t.Errorf("%d leases are remembered, want 3", n)
		}
		h.outage()
		h.fake.set(broken)
		batch(true)
		if st := h.Stats(); st.Held != 3 {
			t.Errorf("want 3 leases held in the outage, got %+v", st)
		}
		// New leases, from the fallback.
		out = out[:2]
		rs[0].Member, rs[1].Member = 2, 2
		batch(true)
		granted := []sluice.Charge{rs[0].Charge(&out[0]), rs[1].Charge(&out[1])}
		batch(true) // renews them
		if n := h.Stats().Leases; n != 5 {
			t.Errorf("%d leases are remembered, want 5", n)
		}
		h.recovery()
		batch(false) // moves them
		if n := held(t, h.fake.Store, leases); n != 2 {
			t.Errorf("%d are held in the store, want 2", n)
		}
		// Released by the receipts of old, where they are now.
		for i, c := range granted {
			if err := h.Release(ctx, c, 0); err != nil {
				t.Errorf("releasing %d: %v", i, err)
			}
		}
		if a, b := held(t, h.fake.Store, leases), held(t, h.fake.Store, nobody); a != 1 || b != 1 {
			t.Errorf("%d and %d are held in the store, want 1 and 1", a, b)
		}
		h.outage()
		h.fake.set(broken)
		if n := held(t, h, leases); n != 0 {
			t.Errorf("%d are held locally, want 0", n)
		}
	})
}

// The guard remembers the leases that a batch of the store granted.
func TestLeasesGrantedInBatches(t *testing.T) {
	lease := sluice.Request{Limit: leases, Key: key, Cost: 1, Member: 1}
	peek, shadow := lease, lease
	peek.Peek, shadow.Shadow = true, true
	much := sluice.Request{Limit: window, Key: key, Cost: 101}
	for i, c := range []struct {
		rs   []sluice.Request
		want int
	}{
		{[]sluice.Request{lease, {Limit: other, Cost: 1}}, 1},
		{[]sluice.Request{peek, {Limit: other, Cost: 1}}, 0},
		{[]sluice.Request{lease, much}, 0},
		{[]sluice.Request{shadow, much}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := build(t, guard.Options{})
			if err := h.DecideAll(t.Context(), c.rs, make([]sluice.Decision, 2)); err != nil {
				t.Fatal(err)
			}
			if n := h.Stats().Leases; n != c.want {
				t.Errorf("batch %d: %d leases are remembered, want %d", i, n, c.want)
			}
		})
	}
}

// The memory of leases is bounded, and leases that have ended make room.
func TestLeasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{MaxLeases: 100, Default: sluice.FallbackAllow})
		many := limit("many", sluice.Concurrency{Max: 10_000, TTL: 10 * time.Second})
		take := func(from, to uint64) {
			t.Helper()
			for m := from; m <= to; m++ {
				if d := h.decide(sluice.Request{Limit: many, Key: key, Cost: 1, Member: m}); !d.Allowed {
					t.Fatalf("member %d of 10,000 was denied: %+v", m, d)
				}
			}
		}
		take(1, 300)
		if n := h.Stats().Leases; n != 100 {
			t.Errorf("%d are remembered, want 100", n)
		}
		h.outage()
		h.fake.set(broken)
		take(1, 300)
		if st := h.Stats(); st.Held != 100 || st.Allowed < 200 {
			t.Errorf("want 100 leases held and the rest allowed, got %+v", st)
		}
		pass(11 * time.Second)
		h.recovery()
		take(301, 400)
		h.outage()
		h.fake.set(broken)
		before := h.Stats().Held
		take(301, 400)
		// Each that was remembered made room for some: all but the first few.
		if got := h.Stats().Held - before; got < 95 {
			t.Errorf("%d of 100 new ones were remembered", got)
		}
	})
}

// A lease that the store granted too late, or to somebody who had left, ends soon, and not with its time to live.
func TestLeaseInDoubt(t *testing.T) {
	flight := sluice.Request{Limit: leases, Key: key, Cost: 1}
	decide := map[string]func(h *house, ctx context.Context, member uint64) error{
		"alone": func(h *house, ctx context.Context, member uint64) error {
			r := flight
			r.Member = member
			_, err := h.Decide(ctx, r)
			return err
		},
		"in a batch": func(h *house, ctx context.Context, member uint64) error {
			r := flight
			r.Member = member
			return h.DecideAll(ctx, []sluice.Request{r, {Limit: other, Key: key, Cost: 1}}, make([]sluice.Decision, 2))
		},
	}
	for name, decide := range decide {
		for _, fallback := range []sluice.Fallback{sluice.FallbackLocal, sluice.FallbackAllow, sluice.FallbackDeny} {
			t.Run(name+", "+fallback.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := build(t, guard.Options{Default: fallback})
					h.fake.set(slow(100 * time.Millisecond))
					for member := range uint64(3) {
						if err := decide(h, t.Context(), member+1); err != nil {
							t.Error(err)
						}
					}
					leaving, leave := context.WithCancel(t.Context())
					time.AfterFunc(10*time.Millisecond, leave)
					if err := decide(h, leaving, 4); !errors.Is(err, sluice.ErrUnknownOutcome) {
						t.Errorf("the caller that left gets %v", err)
					}
					pass(200 * time.Millisecond)
					if n := held(t, h.fake.Store, leases); n != 4 {
						t.Errorf("%d are held in the store, want 4: this tests nothing", n)
					}
					h.outage() // which lasts longer than the first attempt
					pass(3 * time.Second)
					h.fake.set(nil)
					pass(6 * time.Second)
					if n := held(t, h.fake.Store, leases); n != 0 {
						t.Errorf("%d are held in the store by nobody", n)
					}
					calls := h.fake.calls.Load()
					pass(time.Hour)
					if n := h.fake.calls.Load(); n != calls {
						t.Errorf("%d more calls of the store", n-calls)
					}
				})
			})
		}
	}
}

// A lease in doubt that a later request gets is kept, because its member has it then.
func TestLeaseInDoubtTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackDeny})
		r := sluice.Request{Limit: leases, Key: key, Cost: 1, Member: 7}
		h.fake.set(slow(100 * time.Millisecond))
		if d := h.decide(r); d.Allowed {
			t.Errorf("a late answer was used: %+v", d)
		}
		pass(200 * time.Millisecond)
		h.fake.set(nil)
		if d := h.decide(r); !d.Allowed || d.Degraded {
			t.Errorf("the store should give the lease to its member: %+v", d)
		}
		pass(6 * time.Second)
		if n := held(t, h.fake.Store, leases); n != 1 {
			t.Errorf("%d are held in the store, want 1", n)
		}
	})
}

// A lease that is not remembered, because there are too many, may be in use: it is not ended.
func TestLeaseInDoubtAmongTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackAllow, MaxLeases: 1})
		r := sluice.Request{Limit: leases, Key: key, Cost: 1}
		for member := range uint64(2) {
			r.Member = member + 1
			if d := h.decide(r); !d.Allowed || d.Degraded {
				t.Fatalf("member %d should get a lease of the store: %+v", r.Member, d)
			}
		}
		r.Member = 2
		h.fake.set(slow(100 * time.Millisecond))
		h.decide(r) // the store has renewed it
		h.fake.set(nil)
		pass(6 * time.Second)
		if n := held(t, h.fake.Store, leases); n != 2 {
			t.Errorf("%d are held in the store, want 2", n)
		}
	})
}
