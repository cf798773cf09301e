package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// banning is a fake with faults in its bans, too.
type banning struct {
	*fake
	*memory.Store
}

func (b banning) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	return b.fake.Decide(ctx, r)
}

func (b banning) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	return b.fake.DecideAll(ctx, rs, out)
}

func (b banning) Cancel(ctx context.Context, c sluice.Charge) error { return b.fake.Cancel(ctx, c) }

func (b banning) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	return b.fake.Settle(ctx, c, actual)
}

func (b banning) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	return b.fake.Release(ctx, c, latency)
}

func (b banning) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	return b.fake.Reset(ctx, l, k)
}

func (b banning) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	if err := b.meet(ctx); err != nil {
		return err
	}
	return b.Store.BanKey(ctx, l, k, d)
}

func (b banning) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (bool, error) {
	if err := b.meet(ctx); err != nil {
		return false, err
	}
	return b.Store.LiftBan(ctx, l, k)
}

func (b banning) ListBans(ctx context.Context, q sluice.BanQuery) (sluice.BanPage, error) {
	if err := b.meet(ctx); err != nil {
		return sluice.BanPage{}, err
	}
	return b.Store.ListBans(ctx, q)
}

// wrapped is a store that adds nothing, and lets bans bypass it.
type wrapped struct{ sluice.Store }

func (w wrapped) Unwrap() sluice.Store { return w.Store }

// TestBansReachAWrappedStore: a guard bans by hand through wrappers that have Unwrap, and through no others.
func TestBansReachAWrappedStore(t *testing.T) {
	m := newMemory(t, nil)
	g, err := guard.New(guard.Options{Store: wrapped{wrapped{m}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.BanKey(t.Context(), other, key, time.Hour); err != nil {
		t.Fatal(err)
	}
	d, err := g.Decide(t.Context(), sluice.Request{Limit: other, Key: key, Cost: 1, Ban: &sluice.Ban{}})
	if err != nil || d.Reason != sluice.ReasonBanned {
		t.Errorf("a request of a banned key: %+v, %v", d, err)
	}
	if g, err = guard.New(guard.Options{Store: struct{ sluice.Store }{m}}); err != nil {
		t.Fatal(err)
	}
	if err := g.BanKey(t.Context(), other, key, time.Hour); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a ban through a wrapper without Unwrap: %v", err)
	}
}

// TestBansPassThrough: bans by hand reach the store and the local one, and fail while the
// store is down.
func TestBansPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nil)
		f := banning{&fake{Store: m}, m}
		h := build(t, guard.Options{Store: f, Default: sluice.FallbackLocal, Share: sluice.Share{Of: 1, Parts: 2}})
		h.fake = f.fake
		r := sluice.Request{Limit: other, Key: key, Cost: 1, Ban: &sluice.Ban{}}
		banned := func(when string, want bool) {
			t.Helper()
			if d := h.decide(r); d.Allowed == want || want && d.Reason != sluice.ReasonBanned {
				t.Errorf("%s: banned should be %v: %+v", when, want, d)
			}
		}
		banned("before", false)
		if err := h.BanKey(t.Context(), other, key, time.Hour); err != nil {
			t.Fatal(err)
		}
		banned("after", true)
		page, err := h.ListBans(t.Context(), sluice.BanQuery{})
		if err != nil || len(page.Bans) != 1 || page.Bans[0].Key != key || page.Bans[0].Limit != other.Name() {
			t.Errorf("the list: %+v, %v", page, err)
		}
		h.outage()
		banned("by the fallback", true)
		if err := h.BanKey(t.Context(), other, key, time.Hour); !errors.Is(err, guard.ErrOpen) {
			t.Errorf("banning while the store is down: %v", err)
		}
		if _, err := h.LiftBan(t.Context(), other, key); !errors.Is(err, guard.ErrOpen) {
			t.Errorf("lifting while the store is down: %v", err)
		}
		if _, err := h.ListBans(t.Context(), sluice.BanQuery{}); !errors.Is(err, guard.ErrOpen) {
			t.Errorf("listing while the store is down: %v", err)
		}
		h.recovery()
		if found, err := h.LiftBan(t.Context(), other, key); err != nil || !found {
			t.Errorf("lifting: %t, %v", found, err)
		}
		banned("lifted", false)
		h.outage()
		banned("lifted, by the fallback", false)
		var bad *sluice.RequestError
		if err := h.BanKey(t.Context(), other, key, 0); !errors.As(err, &bad) {
			t.Errorf("a ban for no time: %v", err)
		}
		if _, err := h.LiftBan(t.Context(), nil, key); !errors.As(err, &bad) {
			t.Errorf("lifting the ban of no limit: %v", err)
		}
	})
}

// TestListsOpenNoBreaker: a user without the permission to list bans can still decide.
func TestListsOpenNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nil)
		f := banning{&fake{Store: m}, m}
		h := build(t, guard.Options{Store: f, Default: sluice.FallbackDeny})
		for _, x := range []struct {
			fault fault
			want  error
		}{{broken, errBroken}, {heedful, context.DeadlineExceeded}} {
			f.set(x.fault)
			for range 50 {
				if _, err := h.ListBans(t.Context(), sluice.BanQuery{}); !errors.Is(err, x.want) && !errors.Is(err, guard.ErrLate) {
					t.Fatalf("the list: %v", err)
				}
			}
			f.set(nil)
			if d := h.take(other, 1); !d.Allowed || h.State() != guard.StateClosed {
				t.Errorf("after lists that failed: %+v, %v", d, h.State())
			}
		}
		release := make(chan struct{})
		f.set(hung(release))
		if _, err := h.ListBans(t.Context(), sluice.BanQuery{}); !errors.Is(err, guard.ErrLate) {
			t.Errorf("a list that hangs: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := h.ListBans(ctx, sluice.BanQuery{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a list that its caller leaves: %v", err)
		}
		close(release)
		f.set(nil)
		if h.State() != guard.StateClosed {
			t.Errorf("the breaker is %v", h.State())
		}
	})
}

// TestStoresWithoutBansWork: a store that takes no bans says so, and works.
func TestStoresWithoutBansWork(t *testing.T) {
	h := build(t, guard.Options{})
	_, listErr := h.ListBans(t.Context(), sluice.BanQuery{})
	_, liftErr := h.LiftBan(t.Context(), other, key)
	for _, err := range []error{h.BanKey(t.Context(), other, key, time.Hour), listErr, liftErr} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("no Banner: %v", err)
		}
	}
	if h.State() != guard.StateClosed {
		t.Errorf("the breaker is %v", h.State())
	}
}
