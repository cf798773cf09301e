package threats

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// A service is limited by a policy, and trusts X-Forwarded-For from this machine.
type service struct {
	*testing.T
	store  sluice.Store
	policy *policy.Policy
	server *httptest.Server
}

// overBoth tests a service over each store.
func overBoth(t *testing.T, o policy.Options, h http.HandlerFunc, test func(s *service)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		store, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		test(serve(t, store, o, h))
	})
	t.Run("redis", func(t *testing.T) {
		store, err := rueidisstore.New(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}, DisableRetry: true}, redisstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		test(serve(t, store, o, h))
	})
}

func serve(t *testing.T, store sluice.Store, o policy.Options, h http.HandlerFunc) *service {
	t.Helper()
	o.OnStoreError = sluice.FallbackDeny
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := httplimit.ParseProxies("127.0.0.0/8", "::1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store, ClientIP: client})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(m.Wrap(h))
	t.Cleanup(s.Close)
	return &service{t, store, p, s}
}

// get sends a GET and returns the status. Headers are written as "Name: value" and sent unchanged.
func (s *service) get(path string, headers ...string) int {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.server.URL, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	r.URL.Opaque = path
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header[name] = append(r.Header[name], value)
	}
	res, err := s.server.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		s.Fatal(err)
	}
	return res.StatusCode
}
