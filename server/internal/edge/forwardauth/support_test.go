package forwardauth_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/forwardauth"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// fixture is a handler that trusts the gateway at 127.0.0.1, and the proxies in 10.0.0.0/8.
type fixture struct {
	tb       testing.TB
	h        http.Handler
	store    *memory.Store
	mu       sync.Mutex // of what follows
	verdicts []string
	unusable []string
	errs     []error
}

func newFixture(tb testing.TB, rules ...policy.Rule) *fixture {
	tb.Helper()
	f := &fixture{tb: tb}
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	for i := range rules {
		if rules[i].Key == nil {
			rules[i].Key = []policy.Part{policy.Global()}
		}
	}
	p, err := policy.New(policy.Options{Rules: rules})
	must(err)
	f.store, err = memory.New(memory.Options{})
	must(err)
	proxies, err := httplimit.ParseProxies("127.0.0.1", "10.0.0.0/8")
	must(err)
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies})
	must(err)
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: f.store, ClientIP: ip, TrustMarks: ip.TrustsPeer})
	must(err)
	g, err := gate.New(f.store, gate.Options{})
	must(err)
	decider, err := gateway.New(gateway.Options{
		Decider: d, Gate: g,
		OnVerdict: func(v *policy.Verdict, _ time.Duration) { add(f, &f.verdicts, v.String()) },
		OnError:   func(err error) { add(f, &f.errs, err) },
		Unusable:  func(reason string) { add(f, &f.unusable, reason) },
	})
	must(err)
	f.h = forwardauth.New(decider, ip.TrustsPeer)
	return f
}

// add adds to a list of the fixture.
func add[T any](f *fixture, list *[]T, value T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, value)
}

// send sends a request of a gateway, with headers written as "Name: value".
func (f *fixture) send(r *http.Request, lines ...string) *httptest.ResponseRecorder {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	return w
}

// call sends GET /auth with a query.
func (f *fixture) call(query string, lines ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/auth"+query, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	return f.send(r, lines...)
}

// nginx returns the headers that nginx sends for a request of a client.
func nginx(method, target, client string, more ...string) []string {
	return append([]string{"X-Original-Method: " + method, "X-Original-URI: " + target, "X-Original-Host: a.example", "X-Real-IP: " + client}, more...)
}

// traefik returns the headers that Traefik and Caddy send.
func traefik(method, target, client string, more ...string) []string {
	return append([]string{"X-Forwarded-Method: " + method, "X-Forwarded-Uri: " + target, "X-Forwarded-Host: a.example", "X-Forwarded-For: " + client, "X-Forwarded-Proto: https"}, more...)
}

// hourly returns limits of one window of an hour.
func hourly(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(n)})}
}

// matching returns the match of one path.
func matching(path string) policy.Match { return policy.Match{Paths: []string{path}} }
