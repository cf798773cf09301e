package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What needs a real server is tested in checks/servers.

// unusedAddress returns an address on which nobody listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const threeRules = `
rules:
  - {name: open, match: {path: /open}, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}}
  - {name: here, match: {path: /here}, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}, on_store_error: local}
  - {name: shut, match: {path: /shut}, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}, on_store_error: deny}
`

// A server that starts while its store is down answers by its rules.
func TestStartsWithoutItsStore(t *testing.T) {
	t.Parallel()
	address := unusedAddress(t)
	r := start(t, parse(t, free+fmt.Sprintf("store: {redis: {addresses: ['%s'], local: {share: 1/2}}}\n", address)+threeRules), nil)
	for range 3 {
		if got := r.status(Proxy, "/open"); got != http.StatusOK {
			t.Errorf("/open answers %d", got)
		}
		if got := r.status(Proxy, "/shut"); got != http.StatusServiceUnavailable {
			t.Errorf("/shut answers %d", got)
		}
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := r.status(Proxy, "/here"); got != want {
			t.Errorf("/here answers %d the %d. time, want %d", got, i+1, want)
		}
	}
	res, text := r.send(Admin, http.MethodGet, "/readyz", "")
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(text, "ok\nstore: degraded since ") || !strings.Contains(text, "it cannot be reached") {
		t.Errorf("/readyz answers %d %q", res.StatusCode, text)
	}
	if strings.Contains(text, address) {
		t.Errorf("/readyz contains the store's address: %q", text)
	}
	for series, want := range map[string]string{
		`sluice_store_up`: "0",
		`sluice_degraded_decisions_total{on_store_error="allow",rule="open"}`: "3",
		`sluice_degraded_decisions_total{on_store_error="local",rule="here"}`: "3",
		`sluice_degraded_decisions_total{on_store_error="deny",rule="shut"}`:  "3",
		`sluice_store_calls_total{outcome="answered"}`:                        "0",
	} {
		if got := r.figure(series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	// A goroutine reads overrides, and may come late to it.
	eventually(t, "a line about overrides", func() bool { return strings.Contains(r.log.String(), "overrides") })
	if log := r.log.String(); strings.Count(log, "level=ERROR") != 2 || strings.Count(log, "overrides") != 1 || !strings.Contains(log, address) {
		t.Errorf("the log has not one line about decisions and one about overrides:\n%s", log)
	}
}

func TestRefusesSettingsOfAStoreThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"password_file: " + filepath.Join(dir, "none"):   "store.redis.password_file: ",
		"password_file: " + empty:                        "is empty; put the secret there",
		"password_env: SLUICE_TEST_NOTHING":              "store.redis.password_env: SLUICE_TEST_NOTHING is not set",
		"hash_keys: {secret_file: " + empty + "}":        "store.redis.hash_keys.secret_file: ",
		"tls: {ca: " + filepath.Join(dir, "none") + "}":  "store.redis.tls.ca: ",
		"tls: {ca: " + empty + "}":                       "holds no certificate",
		"tls: {cert: " + empty + ", key: " + empty + "}": "store.redis.tls.cert",
		"local: {share: 1, max_size: 2}":                 "store.redis.local: memory: Options.MaxBytes is 2",
		"hash_keys: {secret_env: SLUICE_TEST_SHORT}":     "16 random bytes",
	} {
		t.Setenv("SLUICE_TEST_SHORT", "hunter2")
		fallback := "allow"
		if strings.HasPrefix(settings, "local") {
			fallback = "local"
		}
		f := parse(t, free+fmt.Sprintf("store: {redis: {addresses: ['%s'], %s}}\non_store_error: %s\n", unusedAddress(t), settings, fallback)+
			"rules:\n  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}}\n")
		a, err := New(Options{File: f, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			a.Close()
			t.Errorf("%s: no error", settings)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error is %v, want %q without the password", settings, err, want)
		}
	}
}
