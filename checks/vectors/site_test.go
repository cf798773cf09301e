package vectors

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// patience is the longest wait for a result that must come.
const patience = 20 * time.Second

// A site is an HTTP server behind a policy.
type site struct {
	*world
	*httptest.Server
}

// serve starts a site. Its handler finds the verdict in the context of the request.
func (w *world) serve(h http.HandlerFunc, rules ...policy.Rule) *site {
	w.Helper()
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		w.Fatal(err)
	}
	proxies, err := httplimit.ParseProxies("127.0.0.0/8", "::1")
	if err != nil {
		w.Fatal(err)
	}
	client, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies})
	if err != nil {
		w.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: w.store, ClientIP: client})
	if err != nil {
		w.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{Context: true, OnError: func(_ *http.Request, err error) { w.Error(err) }})
	if err != nil {
		w.Fatal(err)
	}
	s := httptest.NewServer(m.Wrap(h))
	w.Cleanup(s.Close)
	return &site{w, s}
}

// send sends a request and returns the status and body. Headers are written as "Name: value".
func (s *site) send(method, path string, headers ...string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	res, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// passed sends n requests and returns how many are allowed. The others must get status 429.
func (s *site) passed(n int, method, path string, headers ...string) (allowed int) {
	s.Helper()
	for range n {
		switch status, body := s.send(method, path, headers...); status {
		case http.StatusOK:
			allowed++
		case http.StatusTooManyRequests:
		default:
			s.Fatalf("%s %s: want status 200 or 429, got %d %s", method, path, status, body)
		}
	}
	return allowed
}

// verdict is a handler that writes the verdict of its request in nginx's words.
func verdict(rw http.ResponseWriter, r *http.Request) {
	v, ok := policy.FromContext(r.Context())
	if !ok || len(v.Results) == 0 {
		fmt.Fprint(rw, "-")
		return
	}
	d, state := v.Results[0].Decision, "PASSED"
	switch {
	case !d.Allowed:
		state = "REJECTED"
	case d.Delay > 0:
		state = "DELAYED"
	}
	if v.Results[0].Rule.Shadow {
		state += "_DRY_RUN"
	}
	fmt.Fprint(rw, state)
}
