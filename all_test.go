package sluice_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// newStoreOf returns a memory store on a clock that the test sets, in microseconds.
func newStoreOf(t *testing.T, now *int64) *memory.Store {
	t.Helper()
	store, err := memory.New(memory.Options{Clock: func() int64 { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

const allEpoch = 1_893_456_000_000_000 // midnight

// TestAllowAllIsTheTightest: several limits answer as the tightest of them, with the longest delay.
func TestAllowAllIsTheTightest(t *testing.T) {
	ten := sluice.MustLimit("ten", sluice.FixedWindow{Rate: sluice.PerHour(10)})
	three := sluice.MustLimit("three", sluice.FixedWindow{Rate: sluice.PerMinute(3)})
	queue := sluice.MustLimit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 5})
	slow := sluice.MustLimit("slow", sluice.LeakyBucket{Rate: sluice.PerMinute(6), Queue: 5})
	for _, step := range []struct {
		name     string
		requests []sluice.Request
		want     sluice.Decision // of the last of three calls
	}{
		{"one", []sluice.Request{{Limit: ten, Cost: 1}}, sluice.Decision{Allowed: true, Limit: 10, Remaining: 7, ResetAfter: time.Hour}},
		{"fewer remain", []sluice.Request{{Limit: ten, Cost: 1}, {Limit: three, Cost: 1}}, sluice.Decision{Allowed: true, Limit: 3, ResetAfter: time.Minute}},
		{"a denial", []sluice.Request{{Limit: ten, Cost: 4}, {Limit: three, Cost: 1}}, sluice.Decision{
			Reason: sluice.ReasonLimited, Limit: 10, Remaining: 2, RetryAfter: time.Hour, ResetAfter: time.Hour,
		}},
		{"never beats a wait", []sluice.Request{{Limit: ten, Cost: 4}, {Limit: three, Cost: 4}}, sluice.Decision{
			Reason: sluice.ReasonNever, Limit: 3, Remaining: 3,
		}},
		{"a shadow does not count", []sluice.Request{{Limit: ten, Cost: 1}, {Limit: three, Cost: 4, Shadow: true}}, sluice.Decision{
			Allowed: true, Limit: 10, Remaining: 7, ResetAfter: time.Hour,
		}},
		{"the longest delay", []sluice.Request{{Limit: slow, Cost: 1}, {Limit: queue, Cost: 1}}, sluice.Decision{
			Allowed: true, Limit: 6, Remaining: 3, Delay: 20 * time.Second, ResetAfter: 30 * time.Second,
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			now := int64(allEpoch)
			store := newStoreOf(t, &now)
			var got sluice.Decision
			for range 3 {
				var err error
				if got, err = sluice.AllowAll(t.Context(), store, step.requests...); err != nil {
					t.Fatal(err)
				}
			}
			got.Receipt = sluice.Receipt{}
			if got != step.want {
				t.Errorf("the third answer:\n%+v, want\n%+v", got, step.want)
			}
		})
	}
}

// TestReserveAllEndsTogether: several reservations are settled and given back as one, each charge once.
func TestReserveAllEndsTogether(t *testing.T) {
	minute := sluice.MustLimit("minute", sluice.TokenBucket{Rate: sluice.PerMinute(100)})
	day := sluice.MustLimit("day", sluice.FixedWindow{Rate: sluice.PerDay(1000)})
	later := sluice.MustLimit("later", sluice.FixedWindow{Rate: sluice.PerDay(1000)}) // its cost is known afterwards
	now := int64(allEpoch)
	store, ctx := newStoreOf(t, &now), t.Context()
	reserve := func(n int64) *sluice.Reservations {
		t.Helper()
		r, err := sluice.ReserveAll(ctx, store, time.Minute,
			sluice.Request{Limit: minute, Cost: n}, sluice.Request{Limit: day, Cost: n}, sluice.Request{Limit: later})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	left := func(why string, want ...int64) {
		t.Helper()
		for i, l := range []*sluice.Limit{minute, day, later} {
			d, err := sluice.NewLimiter(store, l).PeekN(ctx, sluice.Key{}, 0)
			if err != nil || d.Remaining != want[i] {
				t.Errorf("%s: %d of %v are left, %v; want %d", why, d.Remaining, l, err, want[i])
			}
		}
	}
	var invalid *sluice.RequestError
	r := reserve(40)
	left("reserved", 60, 960, 1000)
	if other := reserve(101); other.OK() || other.Decision().Limit != 100 {
		t.Errorf("more than one limit can give: %+v", other.Decision())
	} else if err := errors.Join(other.Cancel(ctx), other.Settle(ctx, 0, 0, 0)); err != nil {
		t.Errorf("ending what was denied: %v", err)
	} else if err := other.Settle(ctx, 9, 9, 9); !errors.As(err, &invalid) {
		t.Errorf("settling work that was denied: %v", err)
	}
	if err := r.Settle(ctx, 10, 90); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "2 actual costs for 3 requests") {
		t.Errorf("settled with two costs for three: %v", err)
	}
	if err := r.Settle(ctx, 10, 90, 7); err != nil {
		t.Fatal(err)
	}
	left("settled", 90, 910, 993)
	if err := r.Cancel(ctx); !errors.Is(err, sluice.ErrEnded) {
		t.Errorf("canceled after it: %v, want ErrEnded", err)
	}

	r = reserve(40)
	now++
	if err := r.Cancel(ctx); !errors.Is(err, sluice.ErrActed) {
		t.Errorf("canceled after its moment: %v, want ErrActed", err)
	}
	left("canceled after its moment", 50, 870, 993)
	if err := r.Settle(ctx, 0); err != nil && !errors.Is(err, sluice.ErrEnded) { // one cost for all
		t.Error(err)
	}
	left("settled at 0", 90, 910, 993)

	r = reserve(95) // acts in three seconds, and the window's part at once
	now += 1000
	if r.Decision().Delay != 3*time.Second-time.Microsecond {
		t.Fatalf("five more than there are: %+v", r.Decision())
	}
	if err := r.Cancel(ctx); err != nil {
		t.Errorf("canceled while it waits: %v", err)
	}
	left("canceled while it waits", 90, 910, 993)

	for name, request := range map[string]sluice.Request{
		"a lease":  {Limit: sluice.MustLimit("places", sluice.Concurrency{Max: 1, TTL: time.Minute}), Cost: 1, Member: 1},
		"a debit":  {Limit: minute, Cost: 1, Debit: true},
		"a shadow": {Limit: minute, Cost: 1, Shadow: true},
		"a peek":   {Limit: minute, Cost: 1, Peek: true},
		"no limit": {Cost: 1},
	} {
		if _, err := sluice.ReserveAll(ctx, store, 0, request); !errors.As(err, &invalid) {
			t.Errorf("reserving %s: %v", name, err)
		}
	}
}

// TestNothingToDecide: what is missing is an error at the call, not a denial for ever.
func TestNothingToDecide(t *testing.T) {
	now := int64(allEpoch)
	store, limit := newStoreOf(t, &now), sluice.MustLimit("a", sluice.TokenBucket{Rate: sluice.PerMinute(1)})
	var invalid *sluice.RequestError
	if _, err := sluice.AllowAll(t.Context(), store); !errors.As(err, &invalid) {
		t.Errorf("AllowAll of no request: %v", err)
	}
	if _, err := store.Decide(t.Context(), sluice.Request{Limit: new(sluice.Limit), Cost: 1}); !errors.As(err, &invalid) {
		t.Errorf("a request to the zero Limit: %v", err)
	}
	var found *sluice.Limit
	none := sluice.NewLimiterFunc(store, func(context.Context, sluice.Key) *sluice.Limit { return found })
	for name, call := range map[string]func() error{
		"Allow":   func() error { _, err := none.Allow(t.Context(), sluice.Key{}); return err },
		"Peek":    func() error { _, err := none.Peek(t.Context(), sluice.Key{}); return err },
		"Reserve": func() error { _, err := none.Reserve(t.Context(), sluice.Key{}, 0); return err },
		"Acquire": func() error { _, err := none.Acquire(t.Context(), sluice.Key{}); return err },
		"Wait":    func() error { return none.Wait(t.Context(), sluice.Key{}) },
		"Reset":   func() error { return none.Reset(t.Context(), sluice.Key{}) },
	} {
		for _, found = range []*sluice.Limit{nil, new(sluice.Limit)} {
			if err := call(); !errors.As(err, &invalid) {
				t.Errorf("%s of a key with the limit %p: %v", name, found, err)
			}
		}
	}
	var wrong *sluice.LimitError
	if err := none.SetLimit(limit); !errors.As(err, &wrong) {
		t.Errorf("SetLimit beside a function: %v", err)
	}
	for _, l := range []*sluice.Limit{nil, new(sluice.Limit)} {
		if err := sluice.NewLimiter(store, limit).SetLimit(l); !errors.As(err, &wrong) {
			t.Errorf("SetLimit(%p): %v", l, err)
		}
	}
	for name, f := range map[string]func(){
		"NewLimiter without a store":             func() { sluice.NewLimiter(nil, limit) },
		"NewLimiter without a limit":             func() { sluice.NewLimiter(store, nil) },
		"NewLimiter with the zero limit":         func() { sluice.NewLimiter(store, new(sluice.Limit)) },
		"NewLimiterFunc without a function":      func() { sluice.NewLimiterFunc(store, nil) },
		"MustLimiter for a rate that is not one": func() { memory.MustLimiter("often") },
	} {
		if !panics(f) {
			t.Errorf("%s does not panic", name)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestUnsupportedCallsAreErrors: every call that the limit's algorithm does not have is a *RequestError that wraps ErrUnsupported.
func TestUnsupportedCallsAreErrors(t *testing.T) {
	now := int64(allEpoch)
	store, ctx := newStoreOf(t, &now), t.Context()
	leases := sluice.NewLimiter(store, sluice.MustLimit("leases", sluice.Concurrency{Max: 1}))
	bucket := sluice.NewLimiter(store, sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerMinute(1)}))
	leaky := sluice.MustLimit("leaky", sluice.LeakyBucket{Rate: sluice.PerMinute(1)})
	for name, call := range map[string]func() error{
		"Allow of a lease":      func() error { _, err := leases.Allow(ctx, sluice.Key{}); return err },
		"AllowAll of a lease":   func() error { _, err := sluice.AllowAll(ctx, store, leases.Request(sluice.Key{})); return err },
		"Wait for a lease":      func() error { return leases.Wait(ctx, sluice.Key{}) },
		"Reserve of a lease":    func() error { _, err := leases.Reserve(ctx, sluice.Key{}, 0); return err },
		"ReserveAll of a lease": func() error { _, err := sluice.ReserveAll(ctx, store, 0, leases.Request(sluice.Key{})); return err },
		"Acquire of a token":    func() error { _, err := bucket.Acquire(ctx, sluice.Key{}); return err },
		"a debit of a queue": func() error {
			_, err := store.Decide(ctx, sluice.Request{Limit: leaky, Cost: 1, Debit: true})
			return err
		},
	} {
		err := call()
		var bad *sluice.RequestError
		if !errors.Is(err, sluice.ErrUnsupported) || !errors.As(err, &bad) || bad.Limit == "" {
			t.Errorf("%s: the error is %v, want ErrUnsupported with the limit's name", name, err)
		}
	}
}

// TestErrorsOfTheStandardLibrary: programs that know only the standard library's errors find them.
func TestErrorsOfTheStandardLibrary(t *testing.T) {
	limiter := memory.MustLimiter("1/h")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := limiter.Acquire(ctx, sluice.Key{}); !errors.Is(err, sluice.ErrUnsupported) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a lease of a token bucket: %v", err)
	}
	if err := errors.Join(limiter.Wait(ctx, sluice.Key{}), limiter.Wait(ctx, sluice.Key{})); !errors.Is(err, sluice.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait beyond the deadline: %v", err)
	}
	err := limiter.WaitN(ctx, sluice.Key{}, 2)
	if !errors.Is(err, sluice.ErrNever) || !strings.Contains(err.Error(), limiter.Limit().Name()) {
		t.Errorf("a wait that can never end: %v", err)
	}
	if _, ok := limiter.Store().(*memory.Store); !ok {
		t.Errorf("the store of a short-form limiter is a %T", limiter.Store())
	}
}
