package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// noWriter is a ResponseWriter that costs nothing.
type noWriter struct{ header http.Header }

func (w *noWriter) Header() http.Header         { return w.header }
func (w *noWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *noWriter) WriteHeader(int)             {}

// serve runs a handler repeatedly. It clears the headers after each response, as a server
// does.
func serve(b *testing.B, h http.Handler, remote string) {
	b.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/items", nil)
	r.RemoteAddr = remote
	serveRequest(b, h, r)
}

func serveRequest(b *testing.B, h http.Handler, r *http.Request) {
	b.Helper()
	w := &noWriter{make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
		clear(w.header)
	}
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// BenchmarkFloor runs a handler that only sets the same headers. A middleware's cost is
// its figure minus this figure.
func BenchmarkFloor(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Ratelimit-Policy"] = []string{`"api";q=1000000;w=1`}
		h["Ratelimit"] = []string{`"api";r=999999;t=1`}
		nothing.ServeHTTP(w, r)
	})
	serve(b, h, "192.0.2.1:1234")
}

func benchStore(b *testing.B) *memory.Store {
	b.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func benchLimiter(b *testing.B, ip *httplimit.ClientIP, o httplimit.Options) http.Handler {
	b.Helper()
	limit := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000_000 / 10)})
	return wrap(b, keyed(b, httplimit.KeyOptions{
		Store: benchStore(b), Limits: []*sluice.Limit{limit}, Key: []policy.Part{policy.ClientIP()}, ClientIP: ip,
	}), o, nothing)
}

func BenchmarkMiddleware(b *testing.B) {
	h := benchLimiter(b, nil, httplimit.Options{})
	serve(b, h, "192.0.2.1:1234")
}

func BenchmarkMiddlewareIPv6(b *testing.B) {
	h := benchLimiter(b, nil, httplimit.Options{})
	serve(b, h, "[2001:db8::1]:1234")
}

func BenchmarkMiddlewareXRateLimit(b *testing.B) {
	h := benchLimiter(b, nil, httplimit.Options{Headers: httplimit.HeaderOptions{Profile: httplimit.ProfileXRateLimit}})
	serve(b, h, "192.0.2.1:1234")
}

func BenchmarkMiddlewareForwardedFor(b *testing.B) {
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		b.Fatal(err)
	}
	h := benchLimiter(b, ip, httplimit.Options{})
	r := httptest.NewRequest(http.MethodGet, "/api/items", nil)
	r.RemoteAddr = "10.0.0.1:1234"
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 192.0.2.1, 10.0.0.2")
	serveRequest(b, h, r)
}

func BenchmarkMiddlewareContext(b *testing.B) {
	h := benchLimiter(b, nil, httplimit.Options{Context: true})
	serve(b, h, "192.0.2.1:1234")
}

func BenchmarkMiddlewareCounts(b *testing.B) {
	h := benchLimiter(b, nil, httplimit.Options{Counts: func(status int) bool { return status >= 400 }})
	serve(b, h, "192.0.2.1:1234")
}

func BenchmarkMiddlewarePolicy(b *testing.B) {
	limit := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000_000 / 10)})
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "api", Match: policy.Match{Paths: []string{"/api/**"}}, Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{limit},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: benchStore(b)})
	if err != nil {
		b.Fatal(err)
	}
	serve(b, wrap(b, d, httplimit.Options{}, nothing), "192.0.2.1:1234")
}

func BenchmarkDenied(b *testing.B) {
	limit := sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.Per(1, 365*24*time.Hour)})
	h := wrap(b, keyed(b, httplimit.KeyOptions{
		Store: benchStore(b), Limits: []*sluice.Limit{limit}, Key: []policy.Part{policy.ClientIP()},
	}), httplimit.Options{}, nothing)
	serve(b, h, "192.0.2.1:1234")
}
