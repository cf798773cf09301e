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

var (
	bucket = limit("bucket", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	window = limit("window", sluice.FixedWindow{Rate: sluice.PerDay(100)})
	leaky  = limit("leaky", sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 8})
)

// by chooses a fallback by the name of the limit, and leaves others to the default.
func by(names map[string]sluice.Fallback) func(*sluice.Limit) sluice.Fallback {
	return func(l *sluice.Limit) sluice.Fallback { return names[l.Name()] }
}

// Each fallback decides as its rule says, whatever the request is.
func TestEachFallbackDecidesByItsRule(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name     string
		fallback sluice.Fallback
		request  sluice.Request
		want     sluice.Decision
	}{
		{
			"local", sluice.FallbackLocal,
			sluice.Request{Limit: bucket, Cost: 2},
			sluice.Decision{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: 2 * 2400 * time.Millisecond},
		},
		{
			"local, by default", sluice.FallbackDefault,
			sluice.Request{Limit: window, Cost: 25},
			sluice.Decision{Allowed: true, Limit: 25, ResetAfter: 24 * time.Hour},
		},
		{
			"local, with a floor", sluice.FallbackLocal,
			sluice.Request{Limit: window, Cost: 5, Floor: 40},
			sluice.Decision{Allowed: true, Limit: 25, Remaining: 10, ResetAfter: 24 * time.Hour},
		},
		{
			"local, more than a share", sluice.FallbackLocal,
			sluice.Request{Limit: window, Cost: 26},
			sluice.Decision{Reason: sluice.ReasonLimited, Limit: 25, Remaining: 25, RetryAfter: second},
		},
		{
			"local, never", sluice.FallbackLocal,
			sluice.Request{Limit: window, Cost: 101},
			sluice.Decision{Reason: sluice.ReasonNever, Limit: 25, Remaining: 25},
		},
		{
			"local, a look", sluice.FallbackLocal,
			sluice.Request{Limit: window, Cost: 5, Peek: true},
			sluice.Decision{Allowed: true, Limit: 25, Remaining: 25},
		},
		{
			"allow", sluice.FallbackAllow,
			sluice.Request{Limit: bucket, Cost: 2},
			sluice.Decision{Allowed: true, Limit: 20, Remaining: 18, ResetAfter: 1200 * time.Millisecond},
		},
		{
			"allow, with a floor", sluice.FallbackAllow,
			sluice.Request{Limit: window, Cost: 60, Floor: 40},
			sluice.Decision{Allowed: true, Limit: 100, ResetAfter: 24 * time.Hour},
		},
		{
			"allow, what waits", sluice.FallbackAllow,
			sluice.Request{Limit: leaky, Cost: 3},
			sluice.Decision{Allowed: true, Limit: 9, Remaining: 6, Delay: 200 * time.Millisecond, ResetAfter: 300 * time.Millisecond},
		},
		{
			"allow, never", sluice.FallbackAllow,
			sluice.Request{Limit: window, Cost: 61, Floor: 40},
			sluice.Decision{Reason: sluice.ReasonNever, Limit: 100, Remaining: 60},
		},
		{
			"allow, what must not wait", sluice.FallbackAllow,
			sluice.Request{Limit: leaky, Cost: 3, MaxWait: sluice.NoWait},
			sluice.Decision{Reason: sluice.ReasonNever, Limit: 9, Remaining: 1},
		},
		{
			"allow, a look", sluice.FallbackAllow,
			sluice.Request{Limit: window, Cost: 2, Floor: 40, Peek: true},
			sluice.Decision{Allowed: true, Limit: 100, Remaining: 60},
		},
		{
			"deny", sluice.FallbackDeny,
			sluice.Request{Limit: bucket, Cost: 1},
			sluice.Decision{Reason: sluice.ReasonStoreError, Limit: 20, RetryAfter: second},
		},
		{
			"deny, never", sluice.FallbackDeny,
			sluice.Request{Limit: bucket, Cost: 21},
			sluice.Decision{Reason: sluice.ReasonNever, Limit: 20},
		},
		{
			"unknown", 9,
			sluice.Request{Limit: window, Cost: 25},
			sluice.Decision{Allowed: true, Limit: 25, ResetAfter: 24 * time.Hour},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, guard.Options{
					Share:    sluice.Share{Of: 1, Parts: 4},
					Fallback: func(*sluice.Limit) sluice.Fallback { return c.fallback },
				})
				h.fake.set(broken)
				c.request.Key = key
				c.want.Degraded = true
				d := h.decide(c.request)
				if d.Allowed && !c.request.Peek {
					if err := h.Cancel(t.Context(), c.request.Charge(&d)); err != nil {
						t.Fatal(err)
					}
				}
				d.Receipt = sluice.Receipt{}
				if d != c.want {
					t.Errorf("\n got %+v\nwant %+v", d, c.want)
				}
				out := make([]sluice.Decision, 1)
				if err := h.Reset(t.Context(), c.request.Limit, key); !errors.Is(err, errBroken) {
					t.Errorf("a reset of a store that is broken: %v", err)
				}
				if err := h.DecideAll(t.Context(), []sluice.Request{c.request}, out); err != nil {
					t.Fatal(err)
				}
				out[0].Receipt = sluice.Receipt{}
				if out[0] != c.want {
					t.Errorf("in a batch:\n got %+v\nwant %+v", out[0], c.want)
				}
			})
		})
	}
}

// A denied request can be retried when the store may be called again.
func TestRetryAfterOfDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Retry: 20 * time.Second, Default: sluice.FallbackDeny})
		h.outage()
		d := h.take(other, 1)
		if d.RetryAfter < 10*time.Second || d.RetryAfter > 20*time.Second {
			t.Fatalf("want a retry within 10 to 20 seconds, got %+v", d)
		}
		h.fake.set(nil)
		pass(d.RetryAfter - time.Microsecond)
		if d := h.take(other, 1); d.Allowed || d.RetryAfter != time.Second {
			t.Errorf("before its time: %+v", d)
		}
		pass(time.Microsecond)
		if d := h.take(other, 1); !d.Allowed || d.Degraded {
			t.Errorf("at its time: %+v", d)
		}
	})
}

// An invalid request is refused by every fallback.
func TestFallbackChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Default: sluice.FallbackAllow})
		h.outage()
		for _, r := range []sluice.Request{
			{},
			{Limit: other, Cost: -1},
			{Limit: other, Floor: -1},
			{Limit: other, Cost: 1, Ban: &sluice.Ban{For: time.Second}},
			{Limit: limit("leases", sluice.Concurrency{Max: 1}), Cost: 1},
		} {
			var bad *sluice.RequestError
			if d, err := h.Decide(t.Context(), r); !errors.As(err, &bad) || d != (sluice.Decision{}) {
				t.Errorf("invalid request %+v: %+v, %v; want an error and no decision", r, d, err)
			}
			if err := h.DecideAll(t.Context(), []sluice.Request{{Limit: other}, r}, make([]sluice.Decision, 2)); !errors.As(err, &bad) {
				t.Errorf("in a batch: %+v: %v", r, err)
			}
		}
		if err := h.DecideAll(t.Context(), make([]sluice.Request, 2), nil); err == nil {
			t.Error("a batch without room for decisions")
		}
		if n := h.fake.calls.Load(); n != 10 {
			t.Errorf("%d calls, want the 10 that opened the breaker", n)
		}
	})
}

// Without a local store, what was to be limited locally passes.
func TestLocalFallbackWithoutAStoreAllows(t *testing.T) {
	f := &fake{Store: newMemory(t, nil)}
	f.set(broken)
	s, err := guard.New(guard.Options{Store: f, Fallback: by(map[string]sluice.Fallback{"bucket": sluice.FallbackLocal})})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*sluice.Limit{bucket, window} {
		d, err := s.Decide(t.Context(), sluice.Request{Limit: l, Key: key, Cost: 3})
		if err != nil || !d.Allowed || !d.Degraded || d.Limit != l.Capacity() {
			t.Errorf("%v without a local store: %+v, %v; want it allowed with its whole capacity", l, d, err)
		}
	}
	if st := s.Stats(); st.Allowed != 2 || st.Local != 0 {
		t.Errorf("want two requests allowed and none local, got %+v", st)
	}
}

// If the local store fails as well, that is an error, of both.
func TestFailureOfTheLocalStoreIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errLocal := errors.New("local: no")
		local := &fake{Store: newMemory(t, nil)}
		local.set(func(context.Context) error { return errLocal })
		h := build(t, guard.Options{Local: local})
		h.fake.set(broken)
		_, err := h.Decide(t.Context(), sluice.Request{Limit: other, Cost: 1})
		if !errors.Is(err, errLocal) || !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
		err = h.DecideAll(t.Context(), []sluice.Request{{Limit: other, Cost: 1}, {Limit: bucket, Cost: 1}}, make([]sluice.Decision, 2))
		if !errors.Is(err, errLocal) || !errors.Is(err, errBroken) {
			t.Errorf("a batch: got %v", err)
		}
		h.fake.set(nil)
		if err := h.Reset(t.Context(), other, key); !errors.Is(err, errLocal) {
			t.Errorf("a reset: got %v", err)
		}
		h.fake.set(broken)
		local.set(func(context.Context) error { return sluice.ErrClosed })
		if _, err := h.Decide(t.Context(), sluice.Request{Limit: other, Cost: 1}); !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("a closed one: got %v", err)
		}
	})
}

// The fallback can be replaced while it is used.
func TestFallbackChangesWhileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Fallback: by(map[string]sluice.Fallback{"other": sluice.FallbackDeny})})
		h.outage()
		done := make(chan struct{})
		go func() {
			for range 1000 {
				if d := h.take(other, 1); !d.Degraded {
					t.Errorf("the store decided in an outage: %+v", d)
				}
			}
			close(done)
		}()
		for range 100 {
			h.SetFallback(nil)
			h.SetFallback(by(map[string]sluice.Fallback{"other": sluice.FallbackAllow}))
		}
		<-done
		if d := h.take(other, 1); !d.Allowed || d.Limit != other.Capacity() {
			t.Errorf("then: %+v", d)
		}
		h.SetFallback(nil)
		if d := h.take(bucket, 1); !d.Allowed || h.Stats().Local == 0 {
			t.Errorf("with none: %+v", d)
		}
	})
}

// The local limiter counts apart from the store, also when both are one.
func TestNamesDoNotCollide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := &fake{Store: newMemory(t, nil)}
		h := build(t, guard.Options{Store: both, Local: both.Store, Share: sluice.Share{Of: 1, Parts: 2}})
		h.take(window, 60)
		both.set(broken)
		if d := h.take(window, 50); !d.Allowed || d.Remaining != 0 {
			t.Errorf("locally: %+v", d)
		}
		if got := used(t, both.Store, window); got != 60 {
			t.Errorf("%d are used in the store, want 60", got)
		}
		both.set(nil)
		if err := h.Reset(t.Context(), window, key); err != nil {
			t.Fatal(err)
		}
		if got := used(t, both.Store, window); got != 0 {
			t.Errorf("%d are used after a reset", got)
		}
		both.set(broken)
		if d := h.take(window, 50); !d.Allowed {
			t.Errorf("locally, after a reset: %+v", d)
		}
	})
}

// Processes with a share each admit no more than the limit together.
func TestSharesAddUp(t *testing.T) {
	for _, c := range []struct {
		limit  *sluice.Limit
		most   int64 // in the first moment
		minute int64 // in a minute after it
	}{
		{limit("bucket", sluice.TokenBucket{Rate: sluice.PerMinute(90), Burst: 30}), 30, 90},
		{limit("leaky", sluice.LeakyBucket{Rate: sluice.PerMinute(60), Queue: 9, Undelayed: 9}), 9 + 3, 60},
		{limit("window", sluice.FixedWindow{Rate: sluice.PerMinute(30), Opened: true}), 30, 30},
		{limit("sliding", sluice.SlidingWindow{Rate: sluice.PerMinute(30)}), 30, 30},
		{limit("counter", sluice.SlidingCounter{Rate: sluice.PerMinute(30)}), 30, 30},
		{limit("log", sluice.SlidingLog{Rate: sluice.PerMinute(30)}), 30, 30},
		{limit("log apart", sluice.SlidingLog{Rate: sluice.PerMinute(30), MinInterval: time.Second}), 3, 30},
		{limit("leases", sluice.Concurrency{Max: 8, Queue: 1, TTL: time.Minute}), 6, 6},
	} {
		t.Run(c.limit.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := make([]*house, 3)
				for i := range fleet {
					fleet[i] = build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 3}})
					fleet[i].fake.set(broken)
				}
				member := uint64(0)
				round := func() (admitted int64) {
					for _, h := range fleet {
						for range 100 {
							member++
							if d := h.decide(sluice.Request{Limit: c.limit, Key: key, Cost: 1, Member: member}); d.Allowed {
								admitted++
							}
						}
					}
					return admitted
				}
				if got := round(); got != c.most {
					t.Errorf("%d are admitted at once, want %d", got, c.most)
				}
				minute := int64(0)
				for range 59 {
					pass(time.Second)
					minute += round()
				}
				pass(time.Second)
				minute += round()
				if minute > c.minute {
					t.Errorf("%d are admitted in a minute, want up to %d", minute, c.minute)
				}
			})
		})
	}
}

// A share that changes holds for later decisions, and what keys have used stays used.
func TestSetShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 4}, Default: sluice.FallbackLocal})
		h.outage()
		l := limit("shared", sluice.FixedWindow{Rate: sluice.PerDay(8)})
		pass := func() (n int) {
			for h.take(l, 1).Allowed {
				n++
			}
			return n
		}
		if n := pass(); n != 2 {
			t.Errorf("a quarter of 8 is %d", n)
		}
		if err := h.SetShare(sluice.Share{Of: 1, Parts: 2}); err != nil {
			t.Fatal(err)
		}
		if n := pass(); n != 2 {
			t.Errorf("after 2 of a half of 8, %d pass", n)
		}
		if err := h.SetShare(sluice.Share{Of: 5, Parts: 4}); err == nil {
			t.Error("a share of more than one was accepted")
		}
	})
}
