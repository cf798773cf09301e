package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// bubbleStore returns a memory store that tells the time by package time, which
// is virtual in a synctest bubble.
func bubbleStore(tb testing.TB) *memory.Store {
	tb.Helper()
	s, err := memory.New(memory.Options{Shards: 1, Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// limited returns a handler under one limit for everybody.
func limited(tb testing.TB, store sluice.Store, a sluice.Algorithm, o httplimit.Options, next http.HandlerFunc) http.Handler {
	tb.Helper()
	return wrap(tb, keyed(tb, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", a)}, Key: []httplimit.Part{httplimit.Constant("all")},
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
	d, err := sluice.NewLimiter(store, sluice.MustLimit("l", a)).Peek(tb.Context(), sluice.StringKey("all"), 0)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

func TestMiddleware(t *testing.T) {
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

func TestOptions(t *testing.T) {
	d := keyed(t, httplimit.KeyOptions{
		Store: &recordingStore{}, Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerSecond(1)})},
		Key: []httplimit.Part{httplimit.Constant("all")},
	})
	if _, err := httplimit.New(nil, httplimit.Options{}); err == nil {
		t.Error("a middleware without a decider was made")
	}
	if _, err := httplimit.New(d, httplimit.Options{MaxWaiting: -1}); err == nil {
		t.Error("a negative number of requests may wait")
	}
	if _, err := httplimit.New(d, httplimit.Options{Headers: httplimit.HeaderOptions{Jitter: -1}}); err == nil {
		t.Error("negative jitter was taken")
	}
}

// All limits let a request pass, or none is charged.
func TestSeveralLimits(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	second := sluice.MustLimit("second", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5})
	hour := sluice.MustLimit("hour", sluice.TokenBucket{Rate: sluice.PerHour(2)})
	d := keyed(t, httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{second, hour}, Key: []httplimit.Part{httplimit.Constant("all")},
		Cost: func(r *http.Request) int64 { return r.ContentLength },
	})
	ask := func(cost int64) policy.Verdict {
		r := get("/")
		r.ContentLength = cost
		return d.Decide(r)
	}
	if v := ask(1); !v.Allowed() || v.TightestLimit != hour || v.Tightest.Remaining != 1 || len(v.Met) != 2 {
		t.Errorf("the first: %+v", v)
	}
	if v := ask(2); v.Allowed() || v.TightestLimit != hour || v.RetryAfter() != 30*time.Minute || v.Reason != sluice.ReasonLimited {
		t.Errorf("too much: %+v", v)
	}
	if v := ask(0); !v.Allowed() || v.Met[0].Decision.Remaining != 4 || v.Met[1].Decision.Remaining != 1 {
		t.Errorf("after a denial: %+v", v)
	}
	if v := ask(3); v.Allowed() || v.TightestLimit != hour || v.Reason != sluice.ReasonNever || v.RetryAfter() != 0 {
		t.Errorf("more than fits: %+v", v)
	}
	if v := ask(-1); v.Allowed() || httplimit.Status(&v) != http.StatusBadRequest {
		t.Errorf("a negative cost: %+v", v)
	}
	if v := ask(0); v.Met[0].Decision.Remaining != 4 {
		t.Errorf("after a negative cost: %+v", v)
	}
}

func TestOwnDenial(t *testing.T) {
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
	look := func(_ http.ResponseWriter, r *http.Request) { found, _ = httplimit.FromContext(r.Context()) }
	store := storeAt(t, &clock)
	limited(t, store, sluice.FixedWindow{Rate: sluice.PerMinute(5)}, httplimit.Options{}, look).ServeHTTP(httptest.NewRecorder(), get("/"))
	if found != nil {
		t.Error("there is a verdict that nobody asked for")
	}
	limited(t, store, sluice.FixedWindow{Rate: sluice.PerMinute(5)}, httplimit.Options{Context: true}, look).ServeHTTP(httptest.NewRecorder(), get("/"))
	if found == nil || found.Tightest.Remaining != 3 {
		t.Errorf("got %+v", found)
	}
}

// begin serves a request in a goroutine of its own and returns its response.
func begin(h http.Handler, r *http.Request) (*httptest.ResponseRecorder, *atomic.Bool) {
	w, done := httptest.NewRecorder(), &atomic.Bool{}
	go func() {
		h.ServeHTTP(w, r)
		done.Store(true)
	}()
	synctest.Wait()
	return w, done
}

func TestDelayedRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		h := limited(t, bubbleStore(t), sluice.LeakyBucket{Rate: sluice.PerSecond(2), Queue: 2}, httplimit.Options{},
			func(http.ResponseWriter, *http.Request) {
				mu.Lock()
				at = append(at, time.Since(start))
				mu.Unlock()
			})
		for range 3 {
			begin(h, get("/"))
		}
		if code := status(h); code != 429 {
			t.Errorf("beyond the queue: status %d", code)
		}
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(at) != "[0s 500ms 1s]" {
			t.Errorf("handled at %v", at)
		}
	})
}

// A client that goes away while it waits is not served, and its place in the queue
// goes to the next one.
func TestClientGoneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		served := 0
		queue := sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 2}
		h := limited(t, store, queue, httplimit.Options{}, func(http.ResponseWriter, *http.Request) { served++ })
		status(h)
		ctx, leave := context.WithCancel(t.Context())
		w, done := begin(h, get("/").WithContext(ctx))
		if before := remaining(t, store, queue); done.Load() || before != 1 {
			t.Errorf("waiting: done %v, %d places left", done.Load(), before)
		}
		leave()
		synctest.Wait()
		if after := remaining(t, store, queue); !done.Load() || served != 1 || after != 2 || w.Code != 499 {
			t.Errorf("gone: done %v, %d served, %d places left, status %d", done.Load(), served, after, w.Code)
		}
	})
}

// What other limits took at once is given back too when a client goes away.
func TestClientGoneGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		queue := sluice.MustLimit("queue", sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 2})
		daily := sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(10)})
		flight := sluice.MustLimit("flight", sluice.Concurrency{Max: 5})
		d := keyed(t, httplimit.KeyOptions{
			Store: store, Limits: []*sluice.Limit{queue, daily, flight}, Key: []httplimit.Part{httplimit.Constant("all")},
		})
		h := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, nothing)
		left := func() (n [3]int64) {
			for i, l := range []*sluice.Limit{queue, daily, flight} {
				d, err := sluice.NewLimiter(store, l).Peek(t.Context(), sluice.StringKey("all"), 0)
				if err != nil {
					t.Fatal(err)
				}
				n[i] = d.Remaining
			}
			return n
		}
		status(h)
		ctx, leave := context.WithCancel(t.Context())
		begin(h, get("/").WithContext(ctx))
		if got := left(); got != [3]int64{1, 8, 4} {
			t.Errorf("while it waits there is left %v", got)
		}
		leave()
		synctest.Wait()
		if got := left(); got != [3]int64{2, 9, 5} {
			t.Errorf("after it left there is left %v", got)
		}
	})
}

func TestMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			most  time.Duration
			again string
		}{{time.Second, "2"}, {-1, "3"}} {
			store := bubbleStore(t)
			queue := sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 5}
			h := limited(t, store, queue, httplimit.Options{MaxDelay: c.most}, nothing)
			status(h)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, get("/"))
			if w.Code != 429 || w.Header().Get("Retry-After") != c.again || remaining(t, store, queue) != 5 {
				t.Errorf("MaxDelay %v: status %d, %v, %d places left", c.most, w.Code, w.Header(), remaining(t, store, queue))
			}
		}
	})
}

func TestDeadlineBeforeTheDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		queue := sluice.LeakyBucket{Rate: sluice.Every(3 * time.Second), Queue: 5}
		h := limited(t, store, queue, httplimit.Options{}, nothing)
		status(h)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/").WithContext(ctx))
		if w.Code != 503 || time.Since(start) > 0 || remaining(t, store, queue) != 5 || w.Header().Get("Retry-After") != "3" {
			t.Errorf("status %d after %v, %v", w.Code, time.Since(start), w.Header())
		}
	})
}

func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		queue := sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 9}
		d := keyed(t, httplimit.KeyOptions{
			Store: store, Limits: []*sluice.Limit{sluice.MustLimit("l", queue)}, Key: []httplimit.Part{httplimit.Constant("all")},
		})
		m, err := httplimit.New(d, httplimit.Options{MaxWaiting: 2})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Wrap(nothing)
		for range 3 {
			begin(h, get("/"))
		}
		if m.Waiting() != 2 {
			t.Errorf("%d are waiting", m.Waiting())
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		if w.Code != 503 || w.Header().Get("Retry-After") != "3" || remaining(t, store, queue) != 7 {
			t.Errorf("one too many: status %d, %v, %d places left", w.Code, w.Header(), remaining(t, store, queue))
		}
		<-time.After(time.Minute)
		if m.Waiting() != 0 {
			t.Errorf("%d are still waiting", m.Waiting())
		}
	})
}

// MaxWait lets requests wait for a token bucket, which offers no queue by itself.
func TestWaitForTokenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := wrap(t, keyed(t, httplimit.KeyOptions{
			Store: bubbleStore(t), MaxWait: 2 * time.Second, Key: []httplimit.Part{httplimit.Constant("all")},
			Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 1})},
		}), httplimit.Options{}, nothing)
		begin(h, get("/"))
		begin(h, get("/"))
		_, done := begin(h, get("/"))
		if code := status(h); code != 429 {
			t.Errorf("beyond MaxWait: status %d", code)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if !done.Load() {
			t.Errorf("not handled after %v", time.Since(start))
		}
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		leave := make(chan bool)
		h := limited(t, store, sluice.Concurrency{Max: 2}, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }},
			func(http.ResponseWriter, *http.Request) {
				if <-leave {
					panic(http.ErrAbortHandler)
				}
			})
		quiet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, r)
		})
		_, first := begin(quiet, get("/"))
		_, second := begin(quiet, get("/"))
		if code := status(quiet); code != 429 {
			t.Errorf("one too many: status %d", code)
		}
		// They last longer than a lease does that nobody renews.
		<-time.After(10 * time.Minute)
		if code := status(quiet); code != 429 {
			t.Errorf("one too many after ten minutes: status %d", code)
		}
		for _, panics := range []bool{true, false} {
			leave <- panics
			synctest.Wait()
		}
		if !first.Load() || !second.Load() || remaining(t, store, sluice.Concurrency{Max: 2}) != 2 {
			t.Errorf("after both: %d free", remaining(t, store, sluice.Concurrency{Max: 2}))
		}
		if keys := store.Stats().Keys; keys > 1 {
			t.Errorf("%d keys are left", keys)
		}
	})
}

// Who queues for a place runs when there is one, not when it was estimated to be.
func TestConcurrencyQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		leave := make(chan struct{})
		h := limited(t, bubbleStore(t), sluice.Concurrency{Max: 1, Queue: 1, Latency: 100 * time.Millisecond}, httplimit.Options{MaxDelay: time.Minute},
			func(http.ResponseWriter, *http.Request) {
				most.Store(max(most.Load(), running.Add(1)))
				<-leave
				running.Add(-1)
			})
		begin(h, get("/"))
		_, second := begin(h, get("/"))
		<-time.After(10 * time.Second)
		if n := running.Load(); n != 1 {
			t.Errorf("%d are running", n)
		}
		leave <- struct{}{}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := running.Load(); n != 1 || second.Load() {
			t.Errorf("%d are running after the first left", n)
		}
		leave <- struct{}{}
		synctest.Wait()
		if !second.Load() || most.Load() != 1 {
			t.Errorf("done: %v; %d ran at once", second.Load(), most.Load())
		}
	})
}

// A queued request that cannot wait any longer leaves the queue.
func TestConcurrencyQueueMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		limit := sluice.Concurrency{Max: 1, Queue: 1, Latency: 100 * time.Millisecond}
		leave := make(chan struct{})
		h := limited(t, store, limit, httplimit.Options{MaxDelay: time.Second}, func(http.ResponseWriter, *http.Request) { <-leave })
		begin(h, get("/"))
		w, second := begin(h, get("/"))
		<-time.After(2 * time.Second)
		if !second.Load() || w.Code != 429 || remaining(t, store, limit) != 1 {
			t.Errorf("done %v: status %d, %d places left", second.Load(), w.Code, remaining(t, store, limit))
		}
		close(leave)
		synctest.Wait()
	})
}

// A lease that a rule in shadow granted ends with the request, also if another
// rule refuses it.
func TestShadowLeaseOfRefusedRequest(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "flight", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 5})}, Shadow: true},
		{Name: "few", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(1)})}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, nothing)
	for i, want := range []int{200, 429, 429} {
		if got := status(h); got != want {
			t.Errorf("request %d: status %d", i, got)
		}
	}
	v := d.Policy().Peek(t.Context(), store, &policy.Attributes{})
	if got := v.Met[0].Decision.Remaining; got != 5 {
		t.Errorf("%d of 5 places are free", got)
	}
}

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
	ask := func(target, client string, cost int64) *httptest.ResponseRecorder {
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
		{"//api/./b/", "192.0.2.1", 2, 429, `"api";r=1;t=3599`},
		{"/api/b", "192.0.2.2", 2, 200, `"api";r=1;t=3599`},
		{"/other", "192.0.2.1", 1, 403, ""},
	} {
		if w := ask(c.target, c.client, c.cost); w.Code != c.status || w.Header().Get("RateLimit") != c.rateLimit {
			t.Errorf("request %d: status %d, %v", i, w.Code, w.Header())
		}
	}
	// What was used stays used under other numbers.
	d.SetPolicy(rules(10))
	if w := ask("/api/a", "192.0.2.1", 1); w.Header().Get("RateLimit") != `"api";r=7;t=3599` {
		t.Errorf("under other rules: %v", w.Header())
	}
}

// Only failed attempts to log in count, and of all requests at once no more than
// the limit are tried.
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

// Each algorithm can take a charge back after the handler; one with a warm-up takes
// it back at its stable rate, so that part of the price of a cold start stays.
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
			Counts: func(int) bool { return false }, OnError: func(_ *http.Request, err error) { t.Errorf("%v: %v", a, err) },
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

// An error while a charge is ended is reported and fails nothing.
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

// brokenEnds fails all that ends a charge.
type brokenEnds struct {
	sluice.Store
	err error
}

func (b brokenEnds) Settle(context.Context, sluice.Charge, int64) error          { return b.err }
func (b brokenEnds) Release(context.Context, sluice.Charge, time.Duration) error { return b.err }
func (b brokenEnds) Cancel(context.Context, sluice.Charge) error                 { return b.err }

// A limit that estimates no latency lets nobody run who is queued, either.
func TestConcurrencyQueueWithoutALatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		h := limited(t, bubbleStore(t), sluice.Concurrency{Max: 1, Queue: 1}, httplimit.Options{}, func(http.ResponseWriter, *http.Request) { <-leave })
		begin(h, get("/"))
		_, second := begin(h, get("/"))
		leave <- struct{}{}
		<-time.After(time.Second)
		synctest.Wait()
		if second.Load() {
			t.Error("both were running")
		}
		leave <- struct{}{}
		synctest.Wait()
		if !second.Load() {
			t.Error("the second did not run")
		}
	})
}
