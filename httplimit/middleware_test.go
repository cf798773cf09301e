package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// bubbleStore returns a memory store on the clock of package time, which is virtual
// in a synctest bubble.
func bubbleStore(tb testing.TB) *memory.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// limited returns a handler under one limit for everybody.
func limited(tb testing.TB, store sluice.Store, a sluice.Algorithm, o httplimit.Options, next http.HandlerFunc) http.Handler {
	tb.Helper()
	return wrap(tb, keyed(tb, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", a)}, Key: []policy.Part{policy.Constant("all")},
	}), o, next)
}

// status serves one request and returns the status of the response.
func status(h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, get("/"))
	return w.Code
}

func remaining(tb testing.TB, store sluice.Store, a sluice.Algorithm) int64 {
	tb.Helper()
	d, err := sluice.NewLimiter(store, sluice.MustLimit("l", a)).PeekN(tb.Context(), sluice.StringKey("all"), 0)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// Requests within the limit are served, and others get 429 with the wait.
func TestMiddlewareDeniesAboveTheLimit(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	served := 0
	h := limited(t, store, sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 2}, httplimit.Options{},
		func(w http.ResponseWriter, _ *http.Request) { served++; w.WriteHeader(http.StatusTeapot) })
	for i, want := range []struct {
		advance          int64
		status           int
		rateLimit, again string
	}{
		{0, 418, `"l";r=1;t=1`, ""},
		{0, 418, `"l";r=0;t=1`, ""},
		{0, 429, `"l";r=0;t=1`, "1"},
		{-5e5, 429, `"l";r=0;t=2`, "2"}, // the clock went back
		{15e5, 418, `"l";r=0;t=1`, ""},
		{60e6, 418, `"l";r=1;t=1`, ""},
	} {
		clock += want.advance
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		if got := w.Header(); w.Code != want.status || got.Get("RateLimit") != want.rateLimit || got.Get("Retry-After") != want.again ||
			got.Get("RateLimit-Policy") != `"l";q=2;w=2` {
			t.Errorf("step %d: status %d, %v", i, w.Code, got)
		}
		if problem := strings.Contains(w.Body.String(), `"violated-policies":["l"]`); problem != (want.status == 429) {
			t.Errorf("step %d: body %q", i, w.Body)
		}
	}
	if served != 4 {
		t.Errorf("%d requests were handled", served)
	}
}

func TestMiddlewareOptionsAreRefused(t *testing.T) {
	d := keyed(t, httplimit.KeyOptions{
		Store: &recordingStore{}, Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})},
		Key: []policy.Part{policy.Constant("all")},
	})
	if _, err := httplimit.New(nil, httplimit.Options{}); err == nil {
		t.Error("New accepted a missing decider")
	}
	if _, err := httplimit.New(d, httplimit.Options{MaxWaiting: -1}); err == nil {
		t.Error("New accepted a negative MaxWaiting")
	}
	if _, err := httplimit.New(d, httplimit.Options{Headers: httplimit.HeaderOptions{Jitter: -1}}); err == nil {
		t.Error("New accepted a negative jitter")
	}
}

// Either all limits allow a request, or none is charged.
func TestAllLimitsAllowOrNoneIsCharged(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	second := sluice.MustLimit("second", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5})
	hour := sluice.MustLimit("hour", sluice.TokenBucket{Rate: sluice.PerHour(2)})
	d := keyed(t, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{second, hour}, Key: []policy.Part{policy.Constant("all")},
		Cost: func(r *http.Request) int64 { return r.ContentLength },
	})
	decide := func(cost int64) policy.Verdict {
		r := get("/")
		r.ContentLength = cost
		return d.Decide(r)
	}
	if v := decide(1); !v.Allowed() || v.TightestLimit != hour || v.Tightest.Remaining != 1 || len(v.Results) != 2 {
		t.Errorf("the first request: %+v", v)
	}
	if v := decide(2); v.Allowed() || v.TightestLimit != hour || v.RetryAfter() != 30*time.Minute || v.Reason != sluice.ReasonLimited {
		t.Errorf("too much: %+v", v)
	}
	if v := decide(0); !v.Allowed() || v.Results[0].Decision.Remaining != 4 || v.Results[1].Decision.Remaining != 1 {
		t.Errorf("after a denial: %+v", v)
	}
	if v := decide(3); v.Allowed() || v.TightestLimit != hour || v.Reason != sluice.ReasonNever || v.RetryAfter() != 0 {
		t.Errorf("more than fits: %+v", v)
	}
	if v := decide(-1); v.Allowed() || denial.Status(&v) != http.StatusBadRequest {
		t.Errorf("a negative cost: %+v", v)
	}
	if v := decide(0); v.Results[0].Decision.Remaining != 4 {
		t.Errorf("after a negative cost: %+v", v)
	}
}

// OnDenied writes the refusal, with the verdict and its wait.
func TestOnDeniedWritesTheRefusal(t *testing.T) {
	clock := int64(1e6)
	h := limited(t, storeAt(t, &clock), sluice.FixedWindow{Rate: sluice.PerMinute(1)}, httplimit.Options{
		OnDenied: func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
			w.WriteHeader(http.StatusPaymentRequired)
			fmt.Fprintf(w, "%s: wait %s s (%v)", r.URL.Path, w.Header().Get("Retry-After"), v.Reason)
		},
	}, nothing)
	status(h)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, get("/x"))
	if w.Code != http.StatusPaymentRequired || w.Body.String() != "/x: wait 59 s (limited)" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestVerdictInContext(t *testing.T) {
	clock := int64(1e6)
	var found *policy.Verdict
	look := func(_ http.ResponseWriter, r *http.Request) { found, _ = policy.FromContext(r.Context()) }
	store := storeAt(t, &clock)
	limited(t, store, sluice.FixedWindow{Rate: sluice.PerMinute(5)}, httplimit.Options{}, look).ServeHTTP(httptest.NewRecorder(), get("/"))
	if found != nil {
		t.Error("the context has a verdict without the option")
	}
	limited(t, store, sluice.FixedWindow{Rate: sluice.PerMinute(5)}, httplimit.Options{Context: true}, look).ServeHTTP(httptest.NewRecorder(), get("/"))
	if found == nil || found.Tightest.Remaining != 3 {
		t.Errorf("got %+v", found)
	}
}

// The decider limits by the rules of its policy, and keeps used units when the policy changes.
func TestPolicyDecider(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	rules := func(count int64) *policy.Policy {
		p, err := policy.New(policy.Options{Default: policy.Deny, Rules: []policy.Rule{{
			Name: "api", Match: policy.Match{Paths: []string{"/api/**"}}, Key: []policy.Part{policy.ClientIP()},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(count)})},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{
		Policy: rules(3), Store: store, Cost: func(r *http.Request) int64 { return max(1, r.ContentLength) },
		ClientIP: clientIP(t, httplimit.ClientIPOptions{TrustedProxies: proxies(t, "10.0.0.1")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(t, d, httplimit.Options{}, nothing)
	serve := func(target, client string, cost int64) *httptest.ResponseRecorder {
		r := get(target, "X-Forwarded-For: "+client)
		r.RemoteAddr, r.ContentLength = "10.0.0.1:80", cost
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for i, c := range []struct {
		target, client string
		cost           int64
		status         int
		rateLimit      string
	}{
		{"/api/a", "192.0.2.1", 2, 200, `"api";r=1;t=3599`},
		{"/api//./b/", "192.0.2.1", 2, 429, `"api";r=1;t=3599`},
		{"/api/b", "192.0.2.2", 2, 200, `"api";r=1;t=3599`},
		{"/other", "192.0.2.1", 1, 403, ""},
	} {
		if w := serve(c.target, c.client, c.cost); w.Code != c.status || w.Header().Get("RateLimit") != c.rateLimit {
			t.Errorf("request %d: status %d, %v", i, w.Code, w.Header())
		}
	}
	if err := d.SetPolicy(nil); err == nil || !strings.HasPrefix(err.Error(), "httplimit: ") || d.Policy() == nil {
		t.Errorf("SetPolicy(nil): %v", err)
	}
	// Used units stay used when the limits change.
	if err := d.SetPolicy(rules(10)); err != nil {
		t.Error(err)
	}
	if w := serve("/api/a", "192.0.2.1", 1); w.Header().Get("RateLimit") != `"api";r=7;t=3599` {
		t.Errorf("under other rules: %v", w.Header())
	}
}

// Only failed logins count. Even of requests at the same time, no more than the limit
// reach the handler.
func TestFailedLogins(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	five := sluice.FixedWindow{Rate: sluice.PerHour(5)}
	failed := func(code int) bool { return code == http.StatusUnauthorized }
	h := limited(t, store, five, httplimit.Options{Counts: failed}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("password") {
		case "right":
			fmt.Fprint(w, "welcome")
		case "implicit":
		case "panic":
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	login := func(password string) int {
		defer func() { _ = recover() }()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/?password="+password))
		return w.Code
	}
	for range 20 {
		for _, password := range []string{"right", "implicit", "panic"} {
			login(password)
		}
	}
	if n := remaining(t, store, five); n != 5 {
		t.Fatalf("%d attempts are left after none failed", n)
	}
	for i := range 7 {
		want := http.StatusUnauthorized
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		if got := login("wrong"); got != want {
			t.Errorf("attempt %d: status %d", i, got)
		}
	}
	if got := login("right"); got != http.StatusTooManyRequests {
		t.Errorf("after five failures the right password gets status %d", got)
	}
}

// Each algorithm can give a charge back after the handler. A warm-up bucket gives it back
// at its stable rate, so part of the price of a cold start stays charged.
func TestCountsWithAllAlgorithms(t *testing.T) {
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerHour(3)},
		sluice.LeakyBucket{Rate: sluice.PerHour(3), Queue: 2, Undelayed: 2},
		sluice.FixedWindow{Rate: sluice.PerHour(3)},
		sluice.SlidingWindow{Rate: sluice.PerHour(3)},
		sluice.SlidingCounter{Rate: sluice.PerHour(3)},
		sluice.SlidingLog{Rate: sluice.PerHour(3)},
		sluice.Concurrency{Max: 3},
	} {
		clock := int64(1e6)
		store := storeAt(t, &clock)
		h := limited(t, store, a, httplimit.Options{
			Counts: func(int) bool { return false }, OnError: func(_ *http.Request, err error) { t.Errorf("%v: unexpected error: %v", a, err) },
		}, func(http.ResponseWriter, *http.Request) { clock += 1000 })
		for range 5 {
			if got := status(h); got != 200 {
				t.Errorf("%v: status %d", a, got)
			}
		}
		if n := remaining(t, store, a); n != 3 {
			t.Errorf("%v: %d are left", a, n)
		}
	}
}

// An error at the end of a charge is reported and does not fail the request.
func TestErrorsAfterTheDecision(t *testing.T) {
	broken := errors.New("broken")
	var reported []error
	o := httplimit.Options{
		Counts:  func(int) bool { return false },
		OnError: func(_ *http.Request, err error) { reported = append(reported, err) },
	}
	clock := int64(1e6)
	h := limited(t, brokenEnds{storeAt(t, &clock), broken}, sluice.FixedWindow{Rate: sluice.PerHour(3)}, o, nothing)
	if got := status(h); got != 200 || len(reported) != 1 || !errors.Is(reported[0], broken) {
		t.Errorf("settling: status %d, reported %v", got, reported)
	}
	reported = nil
	h = limited(t, brokenEnds{storeAt(t, &clock), broken}, sluice.Concurrency{Max: 1}, o, nothing)
	if got := status(h); got != 200 || len(reported) != 1 || !errors.Is(reported[0], broken) {
		t.Errorf("releasing: status %d, reported %v", got, reported)
	}
}

// brokenEnds fails every method that ends a charge.
type brokenEnds struct {
	sluice.Store
	err error
}

func (b brokenEnds) Settle(context.Context, sluice.Charge, int64) error          { return b.err }
func (b brokenEnds) Release(context.Context, sluice.Charge, time.Duration) error { return b.err }
func (b brokenEnds) Cancel(context.Context, sluice.Charge) error                 { return b.err }
