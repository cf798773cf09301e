package app

import (
	"net/http"
	"strings"
	"testing"
)

// The listener auth decides by the rules and the store of the other listeners, also after a reload. Its log and
// metrics name it.
func TestForwardAuth(t *testing.T) {
	const listen = "version: 1\nlisten: {proxy: off, api: off, admin: '127.0.0.1:0', auth: '127.0.0.1:0'}\ntrusted_proxies: 127.0.0.1\n"
	r := start(t, parse(t, listen+"rules: [{name: one, match: {path: /api/**}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/h}}]"), nil)
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
	other := start(t, parse(t, strings.Replace(listen, "127.0.0.1\n", "192.0.2.0/24\n", 1)), nil)
	if got, body := other.send(Auth, http.MethodGet, "/auth", "", describing...); got.StatusCode != http.StatusForbidden || !strings.Contains(body, "trusted_proxies") {
		t.Errorf("a stranger: %d %s", got.StatusCode, body)
	}
}
