package rls

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTheCallOverHTTP checks the call over HTTP: its status, its answer and its errors.
func TestTheCallOverHTTP(t *testing.T) {
	w := newWorld(t, rule("user", "user", window(1, time.Minute)))
	w.serve(Options{Headers: quiet(t), MaxMessage: 512})
	question := about(descriptor("user", "a", `,"limit":{"requests_per_unit":1,"unit":"MINUTE","unit_multiplier":2}`), "")
	for _, x := range []struct {
		name, method, kind, body string
		code                     int
		has                      string
	}{
		{"allowed", "POST", "application/json", question, 200, `"unitMultiplier":2`},
		{"denied", "POST", "application/json; charset=utf-8", question, 429, `"overallCode":"OVER_LIMIT"`},
		{"without a type", "POST", "", about(descriptor("user", "b", ""), ""), 200, `"code":"OK"`},
		{"as curl sends it", "POST", "application/x-www-form-urlencoded", about(descriptor("none", "b", ""), ""), 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{"as a page sends it", "POST", "text/plain", question, 415, "application/json"},
		{"GET", "GET", "", "", 405, "use POST"},
		{"no JSON", "POST", "", "{", 400, "RateLimitRequest"},
		{"an unknown field", "POST", "", `{"domain":"d","descriptor":[]}`, 400, "descriptor"},
		{"no domain", "POST", "", `{}`, 400, "the domain is empty"},
		{"too large", "POST", "", about(descriptor("user", strings.Repeat("x", 512), ""), ""), 413, "too large"},
	} {
		r := httptest.NewRequest(x.method, "/json", strings.NewReader(x.body))
		if x.kind != "" {
			r.Header.Set("Content-Type", x.kind)
		}
		got := httptest.NewRecorder()
		w.serveJSON(got, r)
		body := strings.ReplaceAll(got.Body.String(), " ", "")
		if got.Code != x.code || !strings.Contains(body, strings.ReplaceAll(x.has, " ", "")) {
			t.Errorf("%s: %d %s, want %d with %s", x.name, got.Code, got.Body, x.code, x.has)
		}
		if x.method == http.MethodGet && got.Header().Get("Allow") != "POST" {
			t.Errorf("%s: the header Allow is missing: %v", x.name, got.Header())
		}
	}
}
