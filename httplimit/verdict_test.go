package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// answers is a store that returns the decisions of its list.
type answers struct {
	sluice.Store
	list []sluice.Decision
}

func (s answers) DecideAll(_ context.Context, _ []sluice.Request, out []sluice.Decision) error {
	copy(out, s.list)
	return nil
}

// The tightest limit of a verdict denies for the longest time, or has the least left.
func TestTightestLimitSetsTheWait(t *testing.T) {
	passes := func(remaining int64, reset time.Duration) sluice.Decision {
		return sluice.Decision{Allowed: true, Limit: 10, Remaining: remaining, ResetAfter: reset, Delay: reset / 10}
	}
	denied := func(again time.Duration) sluice.Decision {
		return sluice.Decision{Reason: sluice.ReasonLimited, Limit: 10, RetryAfter: again}
	}
	never := sluice.Decision{Reason: sluice.ReasonNever, Limit: 10}
	limits := []*sluice.Limit{
		sluice.MustLimit("0", sluice.FixedWindow{Rate: sluice.PerHour(10)}),
		sluice.MustLimit("1", sluice.FixedWindow{Rate: sluice.PerHour(10)}),
		sluice.MustLimit("2", sluice.FixedWindow{Rate: sluice.PerHour(10)}),
	}
	for i, c := range []struct {
		answers []sluice.Decision
		want    string
		delay   time.Duration
	}{
		{[]sluice.Decision{passes(5, 10), passes(4, 10), passes(6, 30)}, "1", 3},
		{[]sluice.Decision{passes(5, 10), passes(5, 20), passes(6, 30)}, "1", 3},
		{[]sluice.Decision{passes(5, 30), {Allowed: true, Limit: 99, Remaining: 5, ResetAfter: 10, Delay: 1}, passes(6, 30)}, "1", 3}, // a smaller share remains
		{[]sluice.Decision{passes(0, 10), denied(5), passes(0, 30)}, "1", 0},
		{[]sluice.Decision{denied(6), denied(7), denied(5)}, "1", 0},
		{[]sluice.Decision{denied(6), never, denied(5)}, "1", 0},
		{[]sluice.Decision{never, denied(5), never}, "0", 0},
	} {
		d := keyed(t, httplimit.KeyOptions{Store: answers{list: c.answers}, Limits: limits, Key: []policy.Part{policy.Constant("all")}})
		v := d.Decide(get("/"))
		if v.TightestLimit.Name() != c.want || v.Delay != c.delay || v.Allowed() != v.Tightest.Allowed || v.Reason != v.Tightest.Reason {
			t.Errorf("case %d: got %+v", i, v)
		}
	}
}

// A client that is gone when the store cannot decide is not served, and OnError gets no error.
func TestClientGoneWhileDeciding(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	options := httplimit.Options{OnError: func(_ *http.Request, err error) { t.Errorf("OnError got %v", err) }}
	h := limited(t, failingStore{err: context.Canceled}, sluice.FixedWindow{Rate: sluice.PerHour(1)}, options,
		func(http.ResponseWriter, *http.Request) { t.Error("the request was handled") })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, get("/").WithContext(ctx))
	if w.Code != 499 {
		t.Errorf("status %d", w.Code)
	}
}

// renewals fails or denies all decisions after the first.
type renewals struct {
	sluice.Store
	decided *int
	delay   time.Duration // of the first decision
	next    sluice.Decision
	err     error
}

func (s renewals) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	if *s.decided++; *s.decided == 1 {
		return sluice.Decision{Allowed: true, Limit: 2, Delay: s.delay}, nil
	}
	return s.next, s.err
}
func (s renewals) Release(context.Context, sluice.Charge, time.Duration) error { return nil }
func (s renewals) Cancel(context.Context, sluice.Charge) error                 { return nil }

// A request in the queue of a concurrency limit is decided again after its wait. If the store
// fails then, the fallback decides. If the lease is lost, the request is refused.
func TestRenewalInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage := errors.New("outage")
		for _, c := range []struct {
			name   string
			store  renewals
			onErr  sluice.Fallback
			status int
			errs   int
		}{
			{"in time", renewals{next: sluice.Decision{Allowed: true}}, sluice.FallbackDefault, 200, 0},
			{"outage", renewals{err: outage}, sluice.FallbackDefault, 200, 1},
			{"outage, to be denied", renewals{err: outage}, sluice.FallbackDeny, 503, 1},
			{"lost", renewals{next: sluice.Decision{Reason: sluice.ReasonLimited}}, sluice.FallbackDefault, 429, 0},
		} {
			c.store.decided, c.store.delay = new(int), time.Second
			errs := 0
			h := wrap(t, keyed(t, httplimit.KeyOptions{
				Store: c.store, Key: []policy.Part{policy.Constant("all")}, OnStoreError: c.onErr,
				Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.Concurrency{Max: 1, Queue: 1, Latency: time.Second})},
			}), httplimit.Options{OnError: func(*http.Request, error) { errs++ }}, nothing)
			if got := status(h); got != c.status || errs != c.errs {
				t.Errorf("%s: status %d, %d errors", c.name, got, errs)
			}
		}
	})
}

// An error while a request is handled is reported, and the request continues.
func TestRenewalWhileHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage := errors.New("outage")
		for _, c := range []struct {
			store renewals
			want  error
		}{
			{renewals{next: sluice.Decision{Reason: sluice.ReasonLimited}}, sluice.ErrLeaseLost},
			{renewals{err: outage}, outage},
		} {
			c.store.decided = new(int)
			reported := make(chan error, 9)
			h := limited(t, c.store, sluice.Concurrency{Max: 1, TTL: 2 * time.Second}, httplimit.Options{
				OnError: func(_ *http.Request, err error) { reported <- err },
			}, func(http.ResponseWriter, *http.Request) { <-time.After(2500 * time.Millisecond) })
			if got := status(h); got != 200 || *c.store.decided != 3 {
				t.Errorf("status %d after %d decisions", got, *c.store.decided)
			}
			close(reported)
			for err := range reported {
				if !errors.Is(err, c.want) {
					t.Errorf("reported %v; want %v", err, c.want)
				}
			}
		}
	})
}

// A floor must remain, so nothing can be taken until more units are there.
func TestTimeToMoreAboveFloor(t *testing.T) {
	clock := int64(1e6)
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "low", Key: []policy.Part{policy.Global()}, Floor: 5,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(6), Burst: 10})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: storeAt(t, &clock)})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(t, d, httplimit.Options{}, nothing)
	for i, want := range []string{`"low";r=4;t=10`, `"low";r=3;t=7`, `"low";r=2;t=4`} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		if got := w.Header().Get("RateLimit"); got != want {
			t.Errorf("request %d: got %s; want %s", i, got, want)
		}
		clock += 3e6
	}
}

// OnVerdict is called once for each request with the final verdict: after the wait, before the handler.
func TestOnVerdictGetsEachFinalVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		see := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, what)
		}
		start := time.Now()
		o := httplimit.Options{OnVerdict: func(_ *http.Request, v *policy.Verdict, took time.Duration) {
			see(fmt.Sprint(v.Action, errors.Is(v.Refused, sluice.ErrDeadline), time.Since(start), took))
		}}
		h := limited(t, bubbleStore(t), sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 2}, o,
			func(http.ResponseWriter, *http.Request) { see("handled") })
		begin(h, get("/"))
		begin(h, get("/"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		begin(h, get("/").WithContext(ctx))
		begin(h, get("/"))
		begin(h, get("/"))
		<-time.After(time.Minute)
		synctest.Wait()
		opaque := get("/")
		opaque.URL.Opaque = "//host/login"
		h.ServeHTTP(httptest.NewRecorder(), opaque)
		want := []string{
			"allow false 0s 0s", "handled", "deny true 0s 0s", "deny false 0s 0s",
			"allow false 1s 0s", "handled", "allow false 2s 0s", "handled", "deny false 1m0s 0s",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("got %q; want %q", seen, want)
		}
	})
}
