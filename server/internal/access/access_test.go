package access

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// page answers that it was reached.
func page(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }

// call sends a request. It checks that the page gives the answers of 200, and that the other answers are problem
// documents that nobody may store.
func call(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
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
	if reached := strings.Contains(w.Body.String(), "reached"); reached != (w.Code == http.StatusOK) {
		t.Errorf("%s %s %q: the answer %d has the body %q", method, path, header, w.Code, w.Body)
	}
	if w.Code == http.StatusOK {
		return w
	}
	answer := w.Header()
	if want := fmt.Sprintf(`"status":%d`, w.Code); answer.Get("Content-Type") != "application/problem+json" || answer.Get("Cache-Control") != "no-store" || answer.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(w.Body.String(), want) {
		t.Errorf("%s %s %q: the answer %d is %q with %v", method, path, header, w.Code, w.Body, answer)
	}
	return w
}

func TestCallsNeedAToken(t *testing.T) {
	var refused []string
	rules := Rules{Name: "admin", Tokens: newTokens(Token{"another one", every}, Token{"a secret", every}), OnRefused: func(r *http.Request, title string) {
		refused = append(refused, r.Method+" "+r.URL.Path+": "+title)
	}}
	h := rules.Protect(http.HandlerFunc(page))
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
		{"Bearer another one", http.StatusOK},
		{"bearer  a secret ", http.StatusOK},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := call(t, h, method, "/v1/reset", "Authorization", x.authorization, "Host", "sluice.example:9090")
			if w.Code != x.status {
				t.Errorf("%q: %s answers %d, want %d", x.authorization, method, w.Code, x.status)
			}
			var reported []string
			if w.Code == http.StatusUnauthorized {
				reported = []string{method + " /v1/reset: Not authorized"}
			}
			if !slices.Equal(refused, reported) {
				t.Errorf("%q: reports %q, want %q", x.authorization, refused, reported)
			}
			refused = nil
			if w.Code == http.StatusUnauthorized && (w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "secret")) {
				t.Errorf("%q: want a challenge and no secret, got %v %q", x.authorization, w.Header(), w.Body)
			}
		}
	}
}

func TestWebPagesReachNothingOnThisMachine(t *testing.T) {
	for _, x := range []struct {
		rules    Rules
		anyNamed int // the answer to a foreign name
	}{
		{Rules{Name: "admin"}, http.StatusForbidden},
		{Rules{Name: "api", Open: true}, http.StatusOK},
		{Rules{Name: "api", Certificates: true}, http.StatusOK},
	} {
		h := x.rules.Protect(http.HandlerFunc(page))
		for _, host := range []string{"127.0.0.1:9090", "[::1]:9090", "localhost:9090", "localhost", "192.0.2.1", "[::1]"} {
			if w := call(t, h, http.MethodPost, "/v1/reset", "Host", host); w.Code != http.StatusOK {
				t.Errorf("%+v: %s answers %d", x.rules, host, w.Code)
			}
		}
		// A name that an attacker lets resolve to this machine. The page is of the same origin for a browser.
		for _, host := range []string{"evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example", ""} {
			w := call(t, h, http.MethodPost, "/v1/reset", "Host", host, "Origin", "http://"+host)
			if host == "" {
				w = call(t, h, http.MethodPost, "/v1/reset", "Host", host)
			}
			if w.Code != x.anyNamed {
				t.Errorf("%+v: %q answers %d", x.rules, host, w.Code)
			}
		}
		// A form on another site.
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			if w := call(t, h, http.MethodPost, "/v1/reset", name, value); w.Code != http.StatusForbidden {
				t.Errorf("%+v: %s: %s answers %d", x.rules, name, value, w.Code)
			}
		}
	}
}

func TestOnlyThisMachineNeedsNoToken(t *testing.T) {
	closed := Rules{Name: "admin", Remedy: "set admin.token_file"}
	withToken, withCert, open := closed, closed, closed
	withToken.Tokens, withCert.Certificates, open.Open = newTokens(Token{"a secret", every}), true, true
	for _, x := range []struct {
		addr  string // a path means a Unix socket
		rules Rules
		want  string // what the server announces; "refused" if it must not start
	}{
		{"127.0.0.1:9090", closed, ""},
		{"127.8.9.1:9090", closed, ""},
		{"[::1]:9090", closed, ""},
		{"[::ffff:127.0.0.1]:9090", closed, ""},
		{"/run/sluice.sock", closed, ""},
		{"/run/sluice.sock", open, ""},
		{"0.0.0.0:9090", closed, "refused"},
		{"[::]:9090", closed, "refused"},
		{"192.0.2.1:9090", closed, "refused"},
		{"10.0.0.1:9090", closed, "refused"},
		{"192.0.2.1:9090", withToken, "with a token"},
		{"[::]:9090", withToken, "with a token"},
		{"[::]:9090", withCert, "with a client certificate"},
		{"[::]:9090", open, "open to everybody who reaches it"},
		{"127.0.0.1:9090", open, ""},
	} {
		addr := net.Addr(&net.UnixAddr{Name: x.addr, Net: "unix"})
		if !strings.HasPrefix(x.addr, "/") {
			addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(x.addr))
		}
		err := x.rules.CheckAddress(addr, x.addr)
		if (err != nil) != (x.want == "refused") {
			t.Errorf("%s with %+v: %v", x.addr, x.rules, err)
		}
		if err == nil {
			if got := x.rules.Describe(addr); got != x.want {
				t.Errorf("%s with %+v is described as %q, want %q", x.addr, x.rules, got, x.want)
			}
			continue
		}
		for _, want := range []string{x.addr, "token", "set admin.token_file", "127.0.0.1"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not contain %q: %v", want, err)
			}
		}
	}
}

func TestTokensCanChange(t *testing.T) {
	rules := Rules{Name: "admin", Tokens: newTokens(Token{"the first", every})}
	h := rules.Protect(http.HandlerFunc(page))
	status := func(token string) int {
		return call(t, h, http.MethodGet, "/metrics", "Authorization", "Bearer "+token).Code
	}
	if got := status("the first"); got != http.StatusOK {
		t.Errorf("the token is answered %d", got)
	}
	rules.Tokens.Set(Token{"the second", every})
	if first, second := status("the first"), status("the second"); first != http.StatusUnauthorized || second != http.StatusOK {
		t.Errorf("after the change the old token is answered %d and the new one %d", first, second)
	}
	for token, want := range map[string]bool{"the first": false, "the second": true} {
		if known, decides := rules.Verify(token); known != want || decides != want {
			t.Errorf("%s: Verify returns %t and %t, and Protect takes it: %t", token, known, decides, want)
		}
	}
}
