package tracing

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// What a client chose is bounded in a span, because many spans wait in the queue.
func TestTextsOfClientsAreBounded(t *testing.T) {
	tracer, err := New(t.Context(), Options{
		Endpoint: "http://127.0.0.1:1", Sample: 1, Failed: func(error) {},
		Trusted: func(*http.Request) bool { return false }, ClientIP: func(*http.Request) netip.Addr { return netip.Addr{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := tracetest.NewSpanRecorder()
	tracer.provider.RegisterSpanProcessor(ended)
	h := tracer.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	long := strings.Repeat("A", 100_000)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(long, "/"+long, nil))
	for _, x := range ended.Ended() {
		if x.Name() != "HTTP" {
			t.Errorf("a method that a client made up names a span %.20q", x.Name())
		}
		for _, a := range x.Attributes() {
			if n := len(a.Value.AsString()); n > mostText {
				t.Errorf("%s has %d bytes", a.Key, n)
			}
		}
	}
	if len(ended.Ended()) != 1 {
		t.Errorf("%d spans ended, want 1", len(ended.Ended()))
	}
}
