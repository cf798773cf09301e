package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const hookSecret = "b8d1f0c3a7e94265810f6c2d3e9b7a54"

// hook is a receiver of webhooks that verifies them as the documentation says.
type hook struct {
	*httptest.Server
	t        *testing.T
	mu       sync.Mutex
	attempts int
	told     []string
	fails    int // how many attempts it refuses
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{t: t}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Error(err)
	}
	mac := hmac.New(sha256.New, []byte(hookSecret))
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("Webhook-Signature") != want {
		h.t.Errorf("the signature is %s; want %s", r.Header.Get("Webhook-Signature"), want)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.attempts++; h.attempts <= h.fails {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var m struct {
		Type string
		Data struct {
			Changes []struct{ Rule, State string }
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Type != "sluice.pressure" {
		h.t.Errorf("want a message sluice.pressure, got %v: %s", err, body)
	}
	for _, c := range m.Data.Changes {
		h.told = append(h.told, c.Rule+" "+c.State)
	}
}

func (h *hook) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.told, ", ")
}

// A receiver that fails at first gets one message when real traffic becomes too much, and one when it no longer
// is. A pressure that swings between the thresholds sends none.
func TestWebhookHysteresis(t *testing.T) {
	h := newHook(t)
	h.fails = 1
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(hookSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, parse(t, free+fmt.Sprintf(`
scale_out: {webhook: {url: '%s/hidden-path', secret_file: %q, above: 0.8, below: 0.3, for: 300ms}}
rules:
  - {name: busy, match: {path: /busy}, key: global, limit: {algorithm: fixed_window, rate: 20/s}}
  - {name: idle, match: {path: /idle}, key: global, limit: {algorithm: fixed_window, rate: 20/s}}
`, h.URL, secret)), func(o *Options) { o.Window = time.Second })
	// As much as there is, twice, and then half of it: between the thresholds.
	press := func(every time.Duration, until func() bool) {
		t.Helper()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for end := time.Now().Add(patience); !until(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("received %q, at a pressure of %v", h.text(), r.pressureOf("busy"))
			}
			r.send(Proxy, http.MethodGet, "/busy", "")
		}
	}
	r.send(Proxy, http.MethodGet, "/idle", "")
	press(25*time.Millisecond, func() bool { return h.text() == "busy above" })
	between := time.Now().Add(2 * time.Second)
	press(100*time.Millisecond, func() bool { return time.Now().After(between) })
	if got := h.text(); got != "busy above" {
		t.Errorf("received %q, while the pressure was between the thresholds", got)
	}
	eventually(t, "the end of the pressure", func() bool { return h.text() == "busy above, busy below" })
	for series, want := range map[string]string{
		`sluice_webhook_messages_total{outcome="delivered"}`: "2", `sluice_webhook_messages_total{outcome="given_up"}`: "0",
		"sluice_webhook_failed_attempts_total": "1",
	} {
		eventually(t, series+" "+want, func() bool { return r.figure(series) == want })
	}
	r.end()
	for _, hidden := range []string{hookSecret, "hidden-path"} {
		if strings.Contains(r.log.String(), hidden) {
			t.Errorf("the log holds %s:\n%s", hidden, r.log)
		}
	}
}

// The webhook measures the named rules, or all rules.
func TestWebhookOfSomeRules(t *testing.T) {
	t.Setenv("SLUICE_TEST_HOOK", hookSecret)
	for rules, want := range map[string]string{"": "a above, b above", ", rules: [b]": "b above"} {
		h := newHook(t)
		r := start(t, parse(t, free+fmt.Sprintf(`
scale_out: {webhook: {url: %s, secret_env: SLUICE_TEST_HOOK, for: 0%s}}
rules:
  - {name: a, key: global, limit: {algorithm: fixed_window, rate: 1/h}}
  - {name: b, key: global, limit: {algorithm: fixed_window, rate: 1/h}}
`, h.URL, rules)), nil)
		r.send(Proxy, http.MethodGet, "/", "")
		eventually(t, want, func() bool { return h.text() == want })
		r.end()
	}
}

func TestRefusesSecretsOfWebhooks(t *testing.T) {
	t.Setenv("SLUICE_TEST_SHORT", "hunter2")
	for variable, want := range map[string]string{
		"SLUICE_TEST_NOTHING": "scale_out.webhook.secret_env: SLUICE_TEST_NOTHING is not set",
		"SLUICE_TEST_SHORT":   "scale_out.webhook.secret_env: the secret has 7 bytes",
	} {
		f := parse(t, free+"scale_out: {webhook: {url: http://127.0.0.1:1, secret_env: "+variable+"}}\n")
		if _, err := New(Options{File: f, Version: "test"}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// pressureOf returns the metric of a rule.
func (r *running) pressureOf(rule string) float64 {
	r.t.Helper()
	text := r.figure(`sluice_rule_pressure_ratio{rule="` + rule + `"}`)
	pressure, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.t.Fatalf("the metric of rule %s is %q, which is not a number", rule, text)
	}
	return math.Round(pressure*1e6) / 1e6
}

// All edges count towards one pressure of a rule. Denied requests and requests in shadow count, and peeks do not.
func TestEdgesShareThePressureOfARule(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+`
rules:
  - {name: open, match: {path: /open}, key: [global], limit: {algorithm: fixed_window, rate: 20/h}}
  - {name: shut, match: {path: /shut}, key: [global], limit: {algorithm: fixed_window, rate: 2/h}}
  - {name: would, match: {path: "/{any}"}, key: [global], limit: {algorithm: fixed_window, rate: 100/h}, shadow: true}
`), nil)
	for _, rule := range []string{"open", "shut", "would"} {
		if got := r.pressureOf(rule); got != 0 {
			t.Errorf("%s: %v before any request", rule, got)
		}
	}
	for range 5 {
		r.send(Proxy, http.MethodGet, "/open", "")
		r.send(API, http.MethodPost, "/v1/check", `{"method": "GET", "path": "/open"}`)
		r.send(API, http.MethodPost, "/v1/check", `{"rule": "open", "key": []}`)
		r.send(API, http.MethodPost, "/v1/peek", `{"method": "GET", "path": "/open"}`)
		r.send(Proxy, http.MethodGet, "/shut", "")
	}
	for rule, want := range map[string]float64{"open": 0.75, "shut": 2.5, "would": 0.15} {
		if got := r.pressureOf(rule); got != want {
			t.Errorf("%s: the pressure is %v; want %v", rule, got, want)
		}
	}
}

// Rules that a reload adds have a pressure, and rules that it removes have none.
func TestPressureAfterAReload(t *testing.T) {
	t.Parallel()
	const rule = "{name: %s, match: {path: /%[1]s}, key: global, limit: {algorithm: fixed_window, rate: 4/h}}"
	r := reloading(t, free+"rules: ["+fmt.Sprintf(rule, "old")+", "+fmt.Sprintf(rule, "api")+"]\n")
	for range 6 {
		r.send(Proxy, http.MethodGet, "/api", "")
		r.send(Proxy, http.MethodGet, "/old", "")
	}
	r.write(free + "rules: [" + fmt.Sprintf(rule, "api") + ", " + fmt.Sprintf(rule, "new") + "]\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.send(Proxy, http.MethodGet, "/new", "")
	for path, want := range map[string]string{
		"/v1/pressure":     `{"pressures":{"api":1.5,"new":0.25}}`,
		"/v1/pressure/api": `{"rule":"api","pressure":1.5}`,
	} {
		if res, body := r.send(Admin, http.MethodGet, path, ""); res.StatusCode != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s, want %s", path, res.StatusCode, body, want)
		}
	}
	if res, body := r.send(Admin, http.MethodGet, "/v1/pressure/old", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("a rule that is gone: %d %s", res.StatusCode, body)
	}
	// A rule of the same name begins without the pressure of the rule that is gone.
	r.write(free + "rules: [" + fmt.Sprintf(rule, "api") + ", " + fmt.Sprintf(rule, "old") + "]\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if res, body := r.send(Admin, http.MethodGet, "/v1/pressure/old", ""); strings.TrimSpace(body) != `{"rule":"old","pressure":0}` {
		t.Errorf("a rule that is back: %d %s", res.StatusCode, body)
	}
}

// Marked traffic is dropped first when there is congestion, which all edges see; and also
// after the configuration was reloaded.
func TestEdgesDropMarkedTrafficFirst(t *testing.T) {
	t.Parallel()
	const config = free + `
rules:
  - {name: contract, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: %d/h}, when_limited: {action: mark}}
  - {name: service, key: global, limit: {algorithm: fixed_window, rate: 40/h}}
  - {name: drop, match: {marked: true, pressure: {of: service, at_least: 50%%}}, always: true, when_limited: {status: 503}}
`
	r := reloading(t, fmt.Sprintf(config, 4))
	ask := func(tenant string, n, want int) {
		t.Helper()
		for i := range n {
			if got := r.status(Proxy, "/", "X-Tenant", tenant); got != want {
				t.Errorf("%s: %d of %d answers %d; want %d, at a pressure of %v", tenant, i+1, n, got, want, r.pressureOf("service"))
			}
		}
	}
	ask("a", 4, http.StatusOK)
	ask("a", 6, http.StatusOK) // marked, and there is room
	for range 11 {
		if res, body := r.send(API, http.MethodPost, "/v1/check", `{"method": "GET", "path": "/", "headers": {"X-Tenant": "b"}}`); res.StatusCode != http.StatusOK {
			t.Fatalf("tenant b within the limit was refused: %s", body)
		}
	}
	// The demand is now a little more than half of what the service can take.
	ask("a", 3, http.StatusServiceUnavailable)
	ask("c", 4, http.StatusOK)
	ask("c", 1, http.StatusServiceUnavailable)
	r.write(fmt.Sprintf(config, 5))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	ask("c", 1, http.StatusOK) // one more by the new contract
	ask("c", 1, http.StatusServiceUnavailable)
	ask("a", 1, http.StatusOK)
	ask("a", 1, http.StatusServiceUnavailable)
}
