package guard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
)

// fault is what befalls a call before it reaches the store: with an error, it does not.
type fault func(ctx context.Context) error

// fake is a store that works, until a fault is set.
type fake struct {
	sluice.Store
	fault atomic.Pointer[fault]
	calls atomic.Int64
}

var _ sluice.Store = (*fake)(nil)

// set gives later calls a fault, nil for none.
func (f *fake) set(with fault) {
	if with == nil {
		f.fault.Store(nil)
		return
	}
	f.fault.Store(&with)
}

func (f *fake) meet(ctx context.Context) error {
	f.calls.Add(1)
	if with := f.fault.Load(); with != nil {
		return (*with)(ctx)
	}
	return nil
}

func (f *fake) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if err := f.meet(ctx); err != nil {
		return sluice.Decision{}, err
	}
	return f.Store.Decide(ctx, r)
}

func (f *fake) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if err := f.meet(ctx); err != nil {
		return err
	}
	return f.Store.DecideAll(ctx, rs, out)
}

func (f *fake) Cancel(ctx context.Context, c sluice.Charge) error {
	if err := f.meet(ctx); err != nil {
		return err
	}
	return f.Store.Cancel(ctx, c)
}

func (f *fake) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	if err := f.meet(ctx); err != nil {
		return err
	}
	return f.Store.Settle(ctx, c, actual)
}

func (f *fake) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	if err := f.meet(ctx); err != nil {
		return err
	}
	return f.Store.Release(ctx, c, latency)
}

func (f *fake) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if err := f.meet(ctx); err != nil {
		return err
	}
	return f.Store.Reset(ctx, l, k)
}

var errBroken = errors.New("fake: connection refused")

func broken(context.Context) error { return errBroken }

// heedful does not answer, and heeds its context.
func heedful(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// hung does not answer before release is closed, whatever its context says.
func hung(release <-chan struct{}) fault {
	return func(context.Context) error {
		<-release
		return nil
	}
}

// slow answers after a time, whatever its context says.
func slow(d time.Duration) fault {
	return func(context.Context) error {
		pass(d)
		return nil
	}
}

// pass lets time pass in a bubble of package synctest.
func pass(d time.Duration) { <-time.After(d) }

// house is a guard and the stores that it wraps.
type house struct {
	*testing.T
	*guard.Store
	fake  *fake
	local *memory.Store
}

// build returns a guard over a fake with a local store, for which o says the rest.
func build(t *testing.T, o guard.Options) *house {
	t.Helper()
	h := &house{T: t, fake: &fake{Store: newMemory(t, nil)}, local: newMemory(t, nil)}
	if o.Store == nil {
		o.Store = h.fake
	}
	if o.Local == nil {
		o.Local = h.local
	}
	var err error
	if h.Store, err = guard.New(o); err != nil {
		t.Fatal(err)
	}
	return h
}

// decide decides a request without an error.
func (h *house) decide(r sluice.Request) sluice.Decision {
	h.Helper()
	d, err := h.Decide(context.Background(), r)
	if err != nil {
		h.Fatalf("Decide(%v, cost %d): %v", r.Limit, r.Cost, err)
	}
	return d
}

func (h *house) take(l *sluice.Limit, n int64) sluice.Decision {
	h.Helper()
	return h.decide(sluice.Request{Limit: l, Key: key, Cost: n})
}

// outage breaks the store and opens the breaker.
func (h *house) outage() {
	h.Helper()
	h.fake.set(broken)
	for range 100 {
		if h.State() == guard.StateOpen {
			return
		}
		h.take(other, 0)
	}
	h.Fatal("the breaker does not open")
}

// recovery mends the store and closes the breaker.
func (h *house) recovery() {
	h.Helper()
	h.fake.set(nil)
	pass(time.Second)
	if d := h.take(other, 0); d.Degraded || h.State() != guard.StateClosed {
		h.Fatalf("a second after the fault: %+v, %v", d, h.State())
	}
}

// used returns how many units of a limit of plenty are used in a store.
func used(t *testing.T, s sluice.Store, l *sluice.Limit) int64 {
	t.Helper()
	d, err := s.Decide(context.Background(), sluice.Request{Limit: l, Key: key, Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Limit - d.Remaining
}

func limit(name string, a sluice.Algorithm) *sluice.Limit { return sluice.MustLimit(name, a) }

var (
	key   = sluice.StringKey("192.0.2.1")
	other = limit("other", sluice.FixedWindow{Rate: sluice.PerDay(1_000_000)})
)
