package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// page answers that it was reached.
func page(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }

func pages() map[string]http.Handler {
	return map[string]http.Handler{"/metrics": http.HandlerFunc(page), "/v1/reset": http.HandlerFunc(page)}
}

func call(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// open protects nothing, and closed refuses everything.
func open(next http.Handler) http.Handler { return next }

func closed(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
}

func TestProbesSayWhetherTheServerIsReady(t *testing.T) {
	var reason error
	h := New(Options{Protect: closed, Ready: func() error { return reason }})
	for _, state := range []struct {
		reason error
		status int
	}{{nil, http.StatusOK}, {errors.New("draining"), http.StatusServiceUnavailable}, {nil, http.StatusOK}} {
		reason = state.reason
		for _, path := range []string{"/readyz", "/healthz", "/healthcheck"} {
			w := call(h, http.MethodGet, path)
			if w.Code != state.status {
				t.Errorf("%s answers %d while %v", path, w.Code, reason)
			}
			if reason != nil && !strings.Contains(w.Body.String(), "draining") {
				t.Errorf("%s does not say why: %q", path, w.Body)
			}
		}
		if w := call(h, http.MethodGet, "/livez"); w.Code != http.StatusOK {
			t.Errorf("/livez answers %d while %v", w.Code, reason)
		}
	}
}

func TestPagesAreProtected(t *testing.T) {
	h := New(Options{Protect: closed, Ready: func() error { return nil }, Pages: pages()})
	for method, path := range map[string]string{http.MethodGet: "/metrics", http.MethodPost: "/v1/reset"} {
		if w := call(h, method, path); w.Code != http.StatusUnauthorized {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

func TestHasNothingElse(t *testing.T) {
	h := New(Options{Protect: open, Ready: func() error { return nil }, Pages: pages()})
	for _, path := range []string{"/", "/debug/pprof/", "/metrics/x", "/v1/check"} {
		if w := call(h, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

func TestProbesTellDetails(t *testing.T) {
	var reason error
	detail := ""
	h := New(Options{Protect: open, Ready: func() error { return reason }, Detail: func() string { return detail }})
	for _, x := range []struct {
		reason       error
		detail, want string
	}{
		{nil, "", "ok\n"},
		{nil, "store: ok", "ok\nstore: ok\n"},
		{errors.New("draining"), "store: ok", "draining\nstore: ok\n"},
	} {
		reason, detail = x.reason, x.detail
		if got := call(h, http.MethodGet, "/readyz").Body.String(); got != x.want {
			t.Errorf("/readyz answers %q, want %q", got, x.want)
		}
	}
}
