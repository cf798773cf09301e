package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// page answers that it was reached.
func page(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }

func pages() map[string]http.Handler {
	return map[string]http.Handler{"/metrics": http.HandlerFunc(page), "/v1/reset": http.HandlerFunc(page)}
}

func call(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:9090"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestProbesSayWhetherTheServerIsReady(t *testing.T) {
	var reason error
	h := New(Options{Token: "a secret", Ready: func() error { return reason }})
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

func TestPagesNeedTheToken(t *testing.T) {
	h := New(Options{Token: "a secret", Ready: func() error { return nil }, Pages: pages()})
	for _, x := range []struct {
		authorization string
		status        int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer", http.StatusUnauthorized},
		{"Bearer a secre", http.StatusUnauthorized},
		{"Bearer a secret2", http.StatusUnauthorized},
		{"Basic a secret", http.StatusUnauthorized},
		{"Bearer a secret", http.StatusOK},
		{"bearer  a secret ", http.StatusOK},
	} {
		for method, path := range map[string]string{http.MethodGet: "/metrics", http.MethodPost: "/v1/reset"} {
			w := call(h, method, path, "Authorization", x.authorization, "Host", "sluice.example:9090")
			if w.Code != x.status {
				t.Errorf("%q: %s answers %d, want %d", x.authorization, path, w.Code, x.status)
			}
			if w.Code == http.StatusUnauthorized && (w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "secret")) {
				t.Errorf("%q: %v %q", x.authorization, w.Header(), w.Body)
			}
		}
	}
}

func TestWebPagesReachNothingOnThisMachine(t *testing.T) {
	h := New(Options{Ready: func() error { return nil }, Pages: pages()})
	for _, host := range []string{"127.0.0.1:9090", "[::1]:9090", "localhost:9090", "localhost", "192.0.2.1"} {
		if w := call(h, http.MethodPost, "/v1/reset", "Host", host); w.Code != http.StatusOK {
			t.Errorf("%s answers %d", host, w.Code)
		}
	}
	// A name that an attacker lets resolve to this machine.
	for _, host := range []string{"evil.example:9090", "localhost.evil.example", ""} {
		if w := call(h, http.MethodPost, "/v1/reset", "Host", host); w.Code != http.StatusForbidden {
			t.Errorf("%q answers %d", host, w.Code)
		}
	}
	// A form on another site.
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		if w := call(h, http.MethodPost, "/v1/reset", name, value); w.Code != http.StatusForbidden {
			t.Errorf("%s: %s answers %d", name, value, w.Code)
		}
	}
}

func TestHasNothingElse(t *testing.T) {
	h := New(Options{Ready: func() error { return nil }, Pages: pages()})
	for _, path := range []string{"/", "/debug/pprof/", "/metrics/x", "/v1/check"} {
		if w := call(h, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

func TestOnlyThisMachineNeedsNoToken(t *testing.T) {
	for _, x := range []struct {
		addr, token string
		ok          bool
	}{
		{"127.0.0.1:9090", "", true},
		{"127.8.9.1:9090", "", true},
		{"[::1]:9090", "", true},
		{"[::ffff:127.0.0.1]:9090", "", true},
		{"0.0.0.0:9090", "", false},
		{"[::]:9090", "", false},
		{"192.0.2.1:9090", "", false},
		{"10.0.0.1:9090", "", false},
		{"192.0.2.1:9090", "a secret", true},
		{"[::]:9090", "a secret", true},
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(x.addr))
		err := CheckAddress(addr, x.token)
		if (err == nil) != x.ok {
			t.Errorf("%s with token %q: %v", x.addr, x.token, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("the error names no remedy: %v", err)
		}
	}
}

func TestProbesTellDetails(t *testing.T) {
	var reason error
	detail := ""
	h := New(Options{Ready: func() error { return reason }, Detail: func() string { return detail }})
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
