package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector.
type spans struct {
	mu  sync.Mutex
	all []*tracev1.Span
}

// ServeHTTP takes spans as a collector does.
func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var q collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &q)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "not a request of OTLP", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range q.ResourceSpans {
		for _, y := range x.ScopeSpans {
			s.all = append(s.all, y.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// attributesOf returns the attributes of a span as text.
func attributesOf(x *tracev1.Span) map[string]string {
	all := map[string]string{}
	for _, a := range x.Attributes {
		all[a.Key] = strings.Trim(a.Value.String()[strings.Index(a.Value.String(), ":")+1:], `" `)
	}
	return all
}

const (
	theirTrace  = "0af7651916cd43dd8448eb211c80319c"
	theirParent = "00-" + theirTrace + "-b7ad6b7169203331-01"
)

// The span of a request has the decision. The service gets its context. Only a trusted proxy continues its own trace,
// and decides whether it is sent.
func TestSpansHaveTheDecision(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		for _, sample := range []string{"100%", "0%"} {
			t.Run(fmt.Sprintf("trusted %t, sample %s", trusted, sample), func(t *testing.T) {
				var mu sync.Mutex
				var passed []string
				service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					passed = append(passed, r.Header.Get("Traceparent"))
				}))
				defer service.Close()
				got := new(spans)
				endpoint := httptest.NewServer(got)
				defer endpoint.Close()
				text := free + "upstream: " + service.URL + "\ntracing: {endpoint: \"" + endpoint.URL + "\", sample: " + sample + "}\n" +
					"rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: 1}}]\n"
				if trusted {
					text += "trusted_proxies: [127.0.0.1/32]\n"
				}
				r := start(t, parse(t, text), nil)
				for range 2 {
					r.status(Proxy, "/path?token=secret", "Traceparent", theirParent)
				}
				r.end()
				sent := trusted || sample == "100%"
				if len(passed) != 1 || strings.HasPrefix(passed[0], "00-"+theirTrace) != trusted || strings.HasSuffix(passed[0], "-01") != sent || passed[0] == theirParent {
					t.Errorf("the service got %q", passed)
				}
				if !sent {
					if len(got.all) > 0 {
						t.Errorf("%d spans were sent", len(got.all))
					}
					return
				}
				if len(got.all) != 2 {
					t.Fatalf("%d spans were sent, want 2", len(got.all))
				}
				for i, want := range []map[string]string{
					{"sluice.action": "allow", "sluice.rule": "a", "sluice.remaining": "0", "url.path": "/path", "client.address": "127.0.0.1", "http.response.status_code": "200"},
					{"sluice.action": "deny", "sluice.rule": "a", "sluice.reason": "limited", "sluice.limit": "a", "http.request.method": "GET", "http.response.status_code": "429"},
				} {
					x := got.all[i]
					for name, value := range want {
						if have := attributesOf(x)[name]; have != value {
							t.Errorf("span %d: %s is %q, want %q", i, name, have, value)
						}
					}
					if (fmt.Sprintf("%x", x.TraceId) == theirTrace) != trusted || (len(x.Links) == 1) == trusted {
						t.Errorf("span %d has the trace %x and %d links", i, x.TraceId, len(x.Links))
					}
					if strings.Contains(x.String(), "secret") {
						t.Errorf("span %d shows the query", i)
					}
				}
			})
		}
	}
}

// A collector that is gone delays nothing, and its errors are logged.
func TestTracingWithoutACollector(t *testing.T) {
	t.Parallel()
	text := free + "tracing: {endpoint: \"http://" + unusedAddress(t) + "\", sample: 100%}\n"
	r := start(t, parse(t, text), nil)
	for range 20 {
		if got := r.status(Proxy, "/"); got != http.StatusOK {
			t.Errorf("a request is answered %d", got)
		}
	}
	r.end()
}
