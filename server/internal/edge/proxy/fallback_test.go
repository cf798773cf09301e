package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// degrading returns a policy that allows one request an hour, and degrades others to the upstreams.
func degrading(t *testing.T, upstreams ...string) *policy.Policy {
	t.Helper()
	var rules []policy.Rule
	for i, upstream := range upstreams {
		rules = append(rules, policy.Rule{
			Name: fmt.Sprint("rule", i), Key: []policy.Part{policy.Global()},
			Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(1)})},
			WhenLimited: policy.LimitedAction{Action: policy.Degrade, Upstream: upstream, RequestHeader: map[string]string{"X-Less": "{rule}"}},
		})
	}
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// echoedBy returns a service that responds with the request that it got.
func echoedBy(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s: %s %s %s %q for %s", name, r.Method, r.URL, r.Header.Get("X-Less"), body, r.Header.Get("X-Forwarded-For"))
	}
}

// Degraded requests go to another service, unchanged except for the rule's headers and base path.
func TestDegradesToAnotherUpstream(t *testing.T) {
	main, less := service(t, echoedBy("main")), service(t, echoedBy("less"))
	transport := newTransport(t, TransportOptions{})
	target, err := url.Parse(main.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Upstream: target, Transport: transport, Logger: discard()}
	pass, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	rules := degrading(t, less.URL+"/small")
	fallbacks := NewFallbacks(o)
	if err := fallbacks.Set(rules); err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := httplimit.New(decider, httplimit.Options{
		Fallback: fallbacks.Handler, OnError: func(_ *http.Request, err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := httptest.NewServer(Bounded(limiter.Wrap(pass), o.Stall))
	t.Cleanup(f.Close)
	for i, want := range []string{`main: POST /a?b=1  "text" for 127.0.0.1`, `less: POST /small/a?b=1 rule0 "text" for 127.0.0.1`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"/a?b=1", strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Less", "no")
		if res, body := do(t, client(t), r); res.StatusCode != http.StatusOK || body != want {
			t.Errorf("request %d: %d %s; want %s", i, res.StatusCode, body, want)
		}
	}
}

// Requests decided by the previous policy still find its upstreams. A bad URL changes nothing.
func TestFallbacksFollowThePolicy(t *testing.T) {
	transport := newTransport(t, TransportOptions{})
	f := NewFallbacks(Options{Transport: transport, Logger: discard()})
	known := func(names ...string) (set string) {
		for _, name := range names {
			if f.Handler("http://"+name) != nil {
				set += name
			}
		}
		return set
	}
	for i, c := range []struct {
		upstreams []string
		want, err string
	}{
		{nil, "", ""},
		{[]string{"http://a", "http://b", "http://a"}, "ab", ""},
		{[]string{"http://b", "http://c"}, "abc", ""},
		{[]string{"http://d", "d"}, "abc", `proxy: rule "rule1": WhenLimited.Upstream: proxy: the upstream "d" is not an http:// or https:// URL with a host`},
		{[]string{"http://%zz"}, "abc", `rule "rule0"`},
		{[]string{"http://d"}, "bcd", ""},
	} {
		before := f.Handler("http://b")
		err := f.Set(degrading(t, c.upstreams...))
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("step %d: %v", i, err)
		}
		if got := known("a", "b", "c", "d"); got != c.want {
			t.Errorf("step %d: the upstreams are %s; want %s", i, got, c.want)
		}
		if after := f.Handler("http://b"); i > 1 && before != after {
			t.Errorf("step %d: the proxy to b was made again", i)
		}
	}
}
