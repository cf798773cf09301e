package app

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// authOnly is a configuration with the listener auth for gateways at this machine.
const authOnly = "version: 1\nlisten: {proxy: off, api: off, admin: '127.0.0.1:0', auth: '127.0.0.1:0'}\ntrusted_proxies: 127.0.0.1\n"

// The listener auth decides by the rules and the store of the other listeners, also after a reload. Its log and
// metrics name it.
func TestForwardAuth(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, authOnly+"rules: [{name: one, match: {path: /api/**}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/h}}]"), nil)
	describing := []string{"X-Original-Method", "GET", "X-Original-URI", "/api/x", "X-Original-Host", "a.example", "X-Real-IP", "192.0.2.1"}
	for i, want := range []int{200, 403} {
		if got, body := r.send(Auth, http.MethodGet, "/auth?deny_status=403", "", describing...); got.StatusCode != want || got.Header.Get("RateLimit") == "" {
			t.Errorf("request %d: %d %v %s", i, got.StatusCode, got.Header, body)
		}
	}
	if got := r.figure(`sluice_decision_duration_seconds_count{edge="auth"}`); got != "2" {
		t.Errorf("the metrics count %s decisions", got)
	}
	if got, body := r.send(Auth, http.MethodGet, "/auth", ""); got.StatusCode != http.StatusBadRequest || !strings.Contains(body, "X-Original-URI") || !strings.Contains(r.log.String(), "cannot be used") {
		t.Errorf("a request without headers: %d %s\n%s", got.StatusCode, body, r.log)
	}
	other := start(t, parse(t, strings.Replace(authOnly, "127.0.0.1\n", "192.0.2.0/24\n", 1)), nil)
	if got, body := other.send(Auth, http.MethodGet, "/auth", "", describing...); got.StatusCode != http.StatusForbidden || !strings.Contains(body, "trusted_proxies") {
		t.Errorf("a stranger: %d %s", got.StatusCode, body)
	}
}

// described returns a request of nginx for a path of a client.
func described(line, path string, more ...string) string {
	return strings.Join(append([]string{
		line, "Host: sluice", "X-Original-Method: GET", "X-Original-URI: " + path, "X-Original-Host: a.example", "X-Real-IP: 192.0.2.1",
	}, more...), "\r\n") + "\r\n\r\n"
}

// A request with a body, or over HTTP/1.0, is the last one of its connection: what follows may be part of the body.
func TestForwardAuthEndsConnections(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, authOnly+roomy), nil)
	get := described("GET /auth HTTP/1.1", "/")
	for text, want := range map[string][]int{
		get + get: {200, 200},
		described("GET /auth HTTP/1.1", "/", "Connection: close") + get:                                                  {200},
		described("GET /auth HTTP/1.0", "/", "Connection: keep-alive") + get:                                             {200},
		described("GET /auth HTTP/1.0", "/", "Connection: keep-alive", "Transfer-Encoding: chunked") + "0\r\n\r\n" + get: {200},
		described("GET /auth HTTP/1.1", "/", "Content-Length: 5") + "GET /" + get:                                        {400},
		described("GET /auth HTTP/1.1", "/", "Transfer-Encoding: chunked") + "0\r\n\r\n" + get:                           {400},
		described("GET /auth HTTP/1.1", "/", "Transfer-Encoding: chunked", "Content-Length: 5") + "0\r\n\r\n" + get:      {400},
		"GET /auth HTTP/1.1\r\nHost: sluice\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" + get:                     {400},
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                                               {404},
		"GET /auth HTTP/1.1\r\nHost: sluice\r\nA: " + strings.Repeat("a", 80<<10) + "\r\n\r\n" + get:                     {431},
	} {
		if statuses, closed := r.raw(Auth, text, 2); !slices.Equal(statuses, want) || closed != (len(want) == 1) {
			t.Errorf("%.200q: %v, closed: %v, want %v", text, statuses, closed, want)
		}
	}
}

// A gateway that hangs up during a delay gets back what was charged.
func TestForwardAuthHangUps(t *testing.T) {
	r := start(t, parse(t, authOnly+"rules: [{name: slow, key: global, max_wait: 1h, limit: {algorithm: token_bucket, rate: 120/m, burst: 1}}]"), nil)
	get := described("GET /auth HTTP/1.1", "/")
	if statuses, _ := r.raw(Auth, get, 1); !slices.Equal(statuses, []int{200}) {
		t.Fatalf("the first request should pass: %v", statuses)
	}
	waits := func(n string) func() bool {
		return func() bool { return r.figure("sluice_waiting_requests") == n }
	}
	began := time.Now()
	for range 40 { // 20 seconds of delays; each request is the last one when its client leaves, so no other one relies on it
		c, _ := r.connect(Auth)
		if _, err := io.WriteString(c, get); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the wait of a request", waits("1"))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of its wait", waits("0"))
	}
	if statuses, _ := r.raw(Auth, get, 1); !slices.Equal(statuses, []int{200}) || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v: requests that nobody awaits hold their turns", statuses, time.Since(began))
	}
}
