package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
		h.t.Errorf("%v: %s", err, body)
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

// Real traffic is told of once when it has become too much, and once when it no longer is, by a receiver
// that fails at first; what swings between the thresholds is not told.
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
				t.Fatalf("told %q, at a pressure of %v", h.text(), r.pressureOf("busy"))
			}
			r.ask(Proxy, http.MethodGet, "/busy", "")
		}
	}
	r.ask(Proxy, http.MethodGet, "/idle", "")
	press(25*time.Millisecond, func() bool { return h.text() == "busy above" })
	between := time.Now().Add(2 * time.Second)
	press(100*time.Millisecond, func() bool { return time.Now().After(between) })
	if got := h.text(); got != "busy above" {
		t.Errorf("told %q, while the pressure was between the thresholds", got)
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

// Of the rules that are named, and of all if none is.
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
		r.ask(Proxy, http.MethodGet, "/", "")
		eventually(t, want, func() bool { return h.text() == want })
		r.end()
	}
}

func TestRefusesSecretsOfWebhooks(t *testing.T) {
	t.Setenv("SLUICE_TEST_SHORT", "hunter2")
	for variable, want := range map[string]string{
		"SLUICE_TEST_NOTHING": "scale_out.webhook.secret_env: SLUICE_TEST_NOTHING is not set",
		"SLUICE_TEST_SHORT":   "scale_out.webhook: webhook: the secret has 7 bytes",
	} {
		f := parse(t, free+"scale_out: {webhook: {url: http://127.0.0.1:1, secret_env: "+variable+"}}\n")
		if _, err := New(Options{File: f, Version: "test"}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}
