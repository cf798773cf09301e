package sluice_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// The snippets of docs/guide.md are in these examples, line for line.

func Example_wait() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("mail", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 1}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	send := func() { fmt.Println("sent") }
	for range 2 {
		func() {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := limiter.Wait(ctx, key); err != nil {
				fmt.Println(err) // ErrDeadline: the turn would come after the deadline
				return
			}
			send()
		}()
	}
	// Output:
	// sent
	// sluice: the wait would last beyond the deadline: cost 1 of limit "mail"
}

func Example_reserve() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("tokens", sluice.TokenBucket{Rate: sluice.PerMinute(1000)}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	complete := func() int64 { return 150 }

	r, err := limiter.ReserveN(ctx, key, 400, 0) // an estimate
	if err != nil {
		log.Fatal(err)
	}
	if !r.OK() {
		fmt.Println("come back in", r.Decision().RetryAfter)
		return
	}
	used := complete()
	if err := r.Settle(ctx, used); err != nil {
		log.Fatal(err)
	}

	d, err := limiter.Peek(ctx, key)
	fmt.Println(d.Remaining, "left", err)
	// Output: 850 left <nil>
}

func Example_acquire() {
	limiter := sluice.NewLimiter(newStore(), sluice.MustLimit("reports", sluice.Concurrency{Max: 2}))
	ctx, key := context.Background(), sluice.StringKey("alice")
	report := func() { fmt.Println("done") }

	lease, err := limiter.Acquire(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	if !lease.OK() {
		fmt.Println("too many at once")
		return
	}
	report()
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: done
}

func Example_algorithm() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("alice")

	limit, err := sluice.NewLimit("login", sluice.SlidingLog{Rate: sluice.PerMinute(5), MinInterval: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, limit)

	for range 2 {
		d, err := limiter.Allow(ctx, key)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter, err)
	}
	// Output:
	// true 4 0s <nil>
	// false 4 1s <nil>
}

func Example_severalLimits() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("alice")

	perUser := sluice.NewLimiter(store, sluice.MustLimit("user", sluice.TokenBucket{Rate: sluice.PerMinute(10)}))
	everybody := sluice.NewLimiter(store, sluice.MustLimit("all", sluice.TokenBucket{Rate: sluice.PerMinute(1000)}))

	d, err := sluice.AllowAll(ctx, store, perUser.Request(key), everybody.Request(sluice.Key{}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, d.Remaining)
	// Output: true 9
}

func Example_holds() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("alice")
	limiter := sluice.NewLimiter(store, sluice.MustLimit("tokens", sluice.FixedWindow{Rate: sluice.PerDay(1000), Opened: true}))

	reserve := limiter.RequestN(key, 400)
	reserve.Hold = 10 * time.Minute
	r, err := sluice.ReserveAll(ctx, store, 0, reserve)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.OK(), r.Decision().Remaining)
	if err := r.Settle(ctx, 150); err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Peek(ctx, key)
	fmt.Println(d.Remaining, err)
	// Output:
	// true 600
	// 850 <nil>
}

func Example_debits() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("alice")
	minute := sluice.NewLimiter(store, sluice.MustLimit("minute", sluice.FixedWindow{Rate: sluice.PerMinute(100), Opened: true}))
	day := sluice.NewLimiter(store, sluice.MustLimit("day", sluice.FixedWindow{Rate: sluice.PerDay(1000), Opened: true}))

	// 150 units are used already, of both limits.
	debits := []sluice.Request{minute.RequestN(key, 150), day.RequestN(key, 150)}
	for i := range debits {
		debits[i].Debit = true
	}
	d, err := sluice.AllowAll(ctx, store, debits...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("in time:", d.Allowed)

	d, err = day.Debit(ctx, key, 50)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left of the day:", d.Remaining)
	// Output:
	// in time: false
	// left of the day: 800
}

func Example_perClient() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	limit, err := httplimit.PerClient("100/m")
	if err != nil {
		log.Fatal(err)
	}
	handler := limit(mux)

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code)
	// Output: 200
}

func Example_apiKey() {
	store := newStore()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	limit, err := sluice.NewLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	if err != nil {
		log.Fatal(err)
	}
	decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  store,
		Limits: []*sluice.Limit{limit},
		Key:    []policy.Part{policy.Header("X-Api-Key").IfMissing(policy.MissingDeny)},
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := httplimit.New(decider, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limiter.Wrap(mux)

	for _, key := range []string{"alice", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 400
}

func Example_plans() {
	store := newStore()
	paying := false
	pays := func(*http.Request) bool { return paying }

	free := []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(10)})}
	paid := []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(1000)})}
	decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  store,
		Limits: free,
		LimitsFor: func(r *http.Request) []*sluice.Limit {
			if pays(r) {
				return paid
			}
			return nil // Limits
		},
		Key: []policy.Part{policy.Header("X-Tenant").IfMissing(policy.MissingDeny)},
	})
	if err != nil {
		log.Fatal(err)
	}

	for _, paying = range []bool{false, false, true} { // the tenant pays after two requests
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Tenant", "acme")
		v := decider.Decide(r)
		fmt.Println(v.Tightest.Remaining)
	}
	// Output:
	// 9
	// 8
	// 997
}

func Example_policy() {
	store := newStore()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{
			Name:   "per-client",
			Match:  policy.Match{Paths: []string{"/api/**"}},
			Key:    []policy.Part{policy.ClientIP()},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})},
		},
		{
			Name:         "login",
			Match:        policy.Match{Paths: []string{"/login"}, Methods: []string{"POST"}},
			Key:          []policy.Part{policy.ClientIP(), policy.Header("X-Account").IfMissing(policy.MissingDeny)},
			Limits:       []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerMinute(1)})},
			OnStoreError: sluice.FallbackDeny,
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := httplimit.New(decider, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limiter.Wrap(mux)

	for _, request := range []string{"GET /api/orders", "POST /login", "POST //login/", "GET /other"} {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("X-Account", "alice")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(request, w.Code)
	}
	// Output:
	// GET /api/orders 200
	// POST /login 200
	// POST //login/ 429
	// GET /other 200
}

func Example_clock() {
	ctx, key := context.Background(), sluice.StringKey("alice")

	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	store, err := memory.New(memory.Options{Clock: func() int64 { return now }})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(1)}))
	for range 2 {
		d, err := limiter.Allow(ctx, key)
		fmt.Println(d.Allowed, err)
		now += time.Minute.Microseconds()
	}
	// Output:
	// true <nil>
	// true <nil>
}

func Example_tiers() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("acme")
	paying := false
	pays := func(context.Context, sluice.Key) bool { return paying }

	free := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(10)})
	paid := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(1000)})
	limiter := sluice.NewLimiterFunc(store, func(ctx context.Context, key sluice.Key) *sluice.Limit {
		if pays(ctx, key) {
			return paid
		}
		return free
	})

	for _, paying = range []bool{false, false, true} { // the customer pays after two requests
		d, err := limiter.Allow(ctx, key)
		fmt.Println(d.Remaining, err)
	}
	// Output:
	// 9 <nil>
	// 8 <nil>
	// 997 <nil>
}

func Example_reserveSeveral() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("alice")
	complete := func() int64 { return 150 }

	minute := sluice.NewLimiter(store, sluice.MustLimit("minute", sluice.TokenBucket{Rate: sluice.PerMinute(1000)}))
	day := sluice.NewLimiter(store, sluice.MustLimit("day", sluice.FixedWindow{Rate: sluice.PerDay(30000)}))

	r, err := sluice.ReserveAll(ctx, store, 0, minute.RequestN(key, 400), day.RequestN(key, 400))
	if err != nil {
		log.Fatal(err)
	}
	if !r.OK() {
		return // nothing was taken
	}
	used := complete()
	if err := r.Settle(ctx, used); err != nil {
		log.Fatal(err)
	}

	for _, l := range []*sluice.Limiter{minute, day} {
		d, err := l.Peek(ctx, key)
		fmt.Println(d.Remaining, err)
	}
	// Output:
	// 850 <nil>
	// 29850 <nil>
}

func Example_ban() {
	store := newStore()
	ctx, key := context.Background(), sluice.StringKey("alice")

	limit := sluice.MustLimit("login", sluice.SlidingLog{Rate: sluice.PerMinute(2)})
	request := sluice.Request{Limit: limit, Key: key, Cost: 1, Ban: &sluice.Ban{After: 2, Within: time.Minute, For: time.Hour}}
	for range 5 {
		d, err := store.Decide(ctx, request)
		if err != nil {
			log.Fatal(err)
		}
		if !d.Allowed {
			fmt.Println(d.Reason)
		}
	}
	if _, err := store.LiftBan(ctx, limit, key); err != nil { // BanKey bans by hand
		log.Fatal(err)
	}
	// Output:
	// limited
	// limited
	// banned
}

func Example_countStatus() {
	store := newStore()
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})

	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name:        "failed-logins",
		Match:       policy.Match{Paths: []string{"/login"}},
		Key:         []policy.Part{policy.ClientIP()},
		Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerMinute(2)})},
		CountStatus: []policy.StatusRange{policy.Status(http.StatusUnauthorized)},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := httplimit.New(decider, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := limiter.Wrap(login)

	for _, password := range []string{"right", "wrong", "right", "wrong", "right"} {
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.Header.Set("X-Password", password)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// wrong 401
	// right 200
	// wrong 401
	// right 429
}
