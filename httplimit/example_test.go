package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// must returns v, and panics if there is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// noon is a stopped clock, so that examples always print the same.
func noon() int64 { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro() }

// fetch sends a GET request from 192.0.2.1 to a handler, with headers given as "Name: value".
func fetch(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

// One line limits each client address.
func ExamplePerClient() {
	limit, err := httplimit.PerClient("2/h")
	if err != nil {
		log.Fatal(err)
	}
	handler := limit(hello)
	for range 3 {
		fmt.Println(fetch(handler, "/").Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Each client address may send two requests a minute.
func Example() {
	store, err := memory.New(memory.Options{Clock: noon})
	if err != nil {
		panic(err)
	}
	limit, err := sluice.NewLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(2)})
	if err != nil {
		panic(err)
	}
	decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  store,
		Limits: []*sluice.Limit{limit},
		Key:    []policy.Part{policy.ClientIP()},
	})
	if err != nil {
		panic(err)
	}
	limiter, err := httplimit.New(decider, httplimit.Options{})
	if err != nil {
		panic(err)
	}
	handler := limiter.Wrap(hello)

	for range 3 {
		w := fetch(handler, "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "api";r=1;t=30
	// 200 "api";r=0;t=30
	// 429 "api";r=0;t=30
}

// Each API key has limits of its own. A request without a key is refused.
func ExampleNewKeyDecider() {
	store := must(memory.New(memory.Options{Clock: noon}))
	decider := must(httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store: store,
		Limits: []*sluice.Limit{
			sluice.MustLimit("burst", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 20}),
			sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(1)}),
		},
		Key: []policy.Part{policy.Header("X-API-Key").IfMissing(policy.MissingDeny), policy.Method()},
	}))
	handler := must(httplimit.New(decider, httplimit.Options{})).Wrap(hello)

	fmt.Println(fetch(handler, "/", "X-API-Key: a").Code)
	fmt.Println(fetch(handler, "/", "X-API-Key: a").Code)
	fmt.Println(fetch(handler, "/", "X-API-Key: b").Code)
	fmt.Println(fetch(handler, "/").Code)
	// Output:
	// 200
	// 429
	// 200
	// 400
}

// Rules choose which limits apply to which requests.
func ExampleNewPolicyDecider() {
	rules := must(policy.New(policy.Options{Rules: []policy.Rule{{
		Name:   "login",
		Match:  policy.Match{Paths: []string{"/login"}},
		Key:    []policy.Part{policy.ClientIP()},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerMinute(1)})},
	}}}))
	decider := must(httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: must(memory.New(memory.Options{Clock: noon}))}))
	handler := must(httplimit.New(decider, httplimit.Options{})).Wrap(hello)

	for _, path := range []string{"/login", "//login/", "/other"} {
		fmt.Println(path, fetch(handler, path).Code)
	}
	// Output:
	// /login 200
	// //login/ 429
	// /other 200
}

// Behind proxies, the client is the last address that is not a trusted proxy.
func ExampleNewClientIP() {
	ip := must(httplimit.NewClientIP(httplimit.ClientIPOptions{
		TrustedProxies: must(httplimit.ParseProxies("10.0.0.0/8", "192.0.2.1")),
	}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "192.0.2.1:4711"
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.7, 10.0.0.2") // the client made up the first address

	fmt.Println(ip.Addr(r))
	// Output: 203.0.113.7 true
}

func ExampleParseProxies() {
	_, err := httplimit.ParseProxies("10.0.0.0/8", "::ffff:10.0.0.0/8")
	fmt.Println(err)
	// Output: httplimit: trusted proxy ::ffff:10.0.0.0/8 holds all IPv4 addresses; write a range of IPv4 as 10.0.0.0/8
}

// One budget for each tenant and route.
func ExampleFunction() {
	tenant := httplimit.Function("tenant", func(r *http.Request) (string, bool) {
		name, _, ok := strings.Cut(r.Host, ".")
		return name, ok
	})
	route := must(httplimit.RouteOf("/users/{id}", "/orders/{id}"))
	decider := must(httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  must(memory.New(memory.Options{Clock: noon})),
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
		Key:    []policy.Part{tenant, route.IfMissing(policy.MissingSkip)},
	}))
	handler := must(httplimit.New(decider, httplimit.Options{})).Wrap(hello)

	for _, target := range []string{"http://one.example.com/users/1", "http://one.example.com/users/2", "http://two.example.com/users/1", "http://one.example.com/orders/1"} {
		fmt.Println(target, fetch(handler, target).Code)
	}
	// Output:
	// http://one.example.com/users/1 200
	// http://one.example.com/users/2 429
	// http://two.example.com/users/1 200
	// http://one.example.com/orders/1 200
}

// Only failed attempts use up the limit.
func ExampleOptions_counts() {
	decider := must(httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  must(memory.New(memory.Options{Clock: noon})),
		Limits: []*sluice.Limit{sluice.MustLimit("failed-logins", sluice.SlidingLog{Rate: sluice.PerHour(2)})},
		Key:    []policy.Part{policy.ClientIP().IfMissing(policy.MissingDeny)},
	}))
	limiter := must(httplimit.New(decider, httplimit.Options{
		Counts: func(status int) bool { return status == http.StatusUnauthorized },
	}))
	login := limiter.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))

	for _, password := range []string{"right", "right", "right", "wrong", "wrong", "right"} {
		fmt.Println(password, fetch(login, "/login?password="+password).Code)
	}
	// Output:
	// right 200
	// right 200
	// right 200
	// wrong 401
	// wrong 401
	// right 429
}

// A program can write its own response. The headers are set already.
func ExampleOptions_onDenied() {
	decider := must(httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  must(memory.New(memory.Options{Clock: noon})),
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(1)})},
		Key:    []policy.Part{policy.Constant("everybody")},
	}))
	handler := must(httplimit.New(decider, httplimit.Options{
		Headers: httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit},
		OnDenied: func(w http.ResponseWriter, _ *http.Request, v *policy.Verdict) {
			w.WriteHeader(denial.Status(v))
			fmt.Fprintf(w, "Come back in %s seconds.", w.Header().Get("Retry-After"))
		},
	})).Wrap(hello)

	for range 2 {
		w := fetch(handler, "/")
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Body)
	}
	// Output:
	// 200 0 hello
	// 429 0 Come back in 60 seconds.
}

// A handler can respond with less when little of the limit remains.
func ExampleOptions_context() {
	decider := must(httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  must(memory.New(memory.Options{Clock: noon})),
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(2)})},
		Key:    []policy.Part{policy.Constant("everybody")},
	}))
	handler := must(httplimit.New(decider, httplimit.Options{Context: true})).Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if v, ok := policy.FromContext(r.Context()); ok && v.Tightest.Remaining == 0 {
				fmt.Fprint(w, "hi")
				return
			}
			fmt.Fprint(w, "hello, how are you?")
		}))

	fmt.Println(fetch(handler, "/").Body)
	fmt.Println(fetch(handler, "/").Body)
	// Output:
	// hello, how are you?
	// hi
}

// An edge that is not a handler uses the parts: the decision, the headers, the response.
func ExampleHeaders_Set() {
	decider := must(httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store:  must(memory.New(memory.Options{Clock: noon})),
		Limits: []*sluice.Limit{sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(1)})},
		Key:    []policy.Part{policy.Constant("everybody")},
	}))
	headers := must(httplimit.NewHeaders(httplimit.HeaderOptions{}))

	for range 2 {
		r, w := httptest.NewRequest(http.MethodGet, "/auth", nil), httptest.NewRecorder()
		v := decider.Decide(r)
		headers.Set(w.Header(), &v)
		if !v.Allowed() {
			_ = httplimit.WriteDenied(w, r, &v) // fails only if a rule has a file
		}
		fmt.Printf("%s: %d%s\n", w.Header().Get("RateLimit-Policy"), w.Code, w.Body)
	}
	// Output:
	// "api";q=1;w=60: 200
	// "api";q=1;w=60: 429{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["api"]}
}

func ExampleAttributes() {
	r := httptest.NewRequest(http.MethodGet, "http://Example.com:8080/a/../b?q=1", nil)
	a := httplimit.Attributes(r, nil)
	q, _ := a.Values.Query("q")

	fmt.Println(a.Method, a.Host, policy.Paths{}.Clean(a.Path), a.ClientIP, q)
	// Output: GET Example.com:8080 /b 192.0.2.1 1
}

func ExampleMiddleware_bandwidth() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{
		// All downloads of a user share 1 MB/s, and all uploads share half of that.
		Name: "files", Key: []policy.Part{policy.Header("X-User")},
		Bandwidth: &policy.Bandwidth{Down: sluice.PerSecond(1_000_000), Up: sluice.PerSecond(500_000)},
	}}})
	if err != nil {
		panic(err)
	}
	decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: store})
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.New(decider, httplimit.Options{})
	if err != nil {
		panic(err)
	}
	handler := limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 130_000))
	}))

	r := httptest.NewRequest(http.MethodGet, "/film", http.NoBody)
	r.Header.Set("X-User", "alice")
	w := httptest.NewRecorder()
	began := time.Now()
	handler.ServeHTTP(w, r)
	// 30 kB come at once, and the rest in 100 ms.
	fmt.Println(w.Body.Len(), time.Since(began) >= 95*time.Millisecond)
	// Output: 130000 true
}
