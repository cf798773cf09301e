package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/redisstore"
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
	if log := r.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, address) {
		t.Errorf("the log has no line, or several, of what is wrong:\n%s", log)
	}
}

// A server that would refuse all that it limits is not ready.
func TestIsNotReadyIfEveryRuleDenies(t *testing.T) {
	f := parse(t, free+fmt.Sprintf("store: {redis: {addresses: ['%s']}}\non_store_error: deny\n", unusedAddress(t))+
		"rules:\n  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}}\n")
	a, err := New(Options{File: f, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.serving.Store(true)
	if err := a.Ready(); !errors.Is(err, errStore) {
		t.Errorf("Ready = %v", err)
	}
	a.redis.health.mend(unconnected)
	if err := a.Ready(); err != nil {
		t.Errorf("Ready = %v when the store is there", err)
	}
}

// A server that takes connections and never answers holds up neither start nor end.
func TestStartsAndEndsWithASilentStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	a, err := New(Options{
		File:   parse(t, free+fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", l.Addr())),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > firstPatience+mismatchPatience+2*time.Second {
		t.Errorf("it took %v to start", took)
	}
	if got := a.redis.health.trouble(); got == nil || !strings.Contains(got.why.Error(), "no answer within") {
		t.Errorf("trouble = %v", got)
	}
	began = time.Now()
	a.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v to end", took)
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
		"local: {share: 1, max_size: 2}":                 "store.redis.local: memory: MaxBytes is 2",
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
			t.Errorf("%s: %v", settings, err)
		}
	}
}

func TestTellsHopelessErrors(t *testing.T) {
	reply := func(text string) error { return fmt.Errorf("x: %w", &redisstore.ServerError{Text: text}) }
	for _, err := range []error{
		reply("NOAUTH Authentication required."), reply("WRONGPASS invalid username-password pair or user is disabled."),
		reply("NOPERM this user has no permissions to run the 'evalsha' command"), reply("READONLY You can't write against a read only replica."),
		reply("ERR unknown command 'EVALSHA'"), reply("ERR DB index is out of range"), reply("ERR This instance has cluster support disabled"),
		fmt.Errorf("x: %w", x509.UnknownAuthorityError{}), fmt.Errorf("x: %w", x509.HostnameError{Certificate: &x509.Certificate{}}),
		fmt.Errorf("x: %w", &misfitError{errors.New("no node")}), fmt.Errorf("x: %w", &redisstore.MisfitError{}),
	} {
		if !hopeless(err) {
			t.Errorf("there is hope for %q", err)
		}
	}
	for _, err := range []error{
		reply("LOADING Redis is loading the dataset in memory"), reply("OOM command not allowed when used memory > 'maxmemory'."),
		reply("MISCONF Redis is configured to save RDB snapshots"), reply("CLUSTERDOWN Hash slot not served"), reply("BUSY Redis is busy running a script."),
		reply("ERR max number of clients reached"), redisstore.ErrNotSent, context.DeadlineExceeded, io.EOF, sluice.ErrUnknownOutcome,
		x509.CertificateInvalidError{Reason: x509.Expired},
	} {
		if hopeless(err) {
			t.Errorf("there is no hope for %q", err)
		}
	}
}

func TestReasonsTellNoAddress(t *testing.T) {
	for want, err := range map[string]error{
		"it replies OOM":                fmt.Errorf("x: %w", &redisstore.ServerError{Text: "OOM command not allowed"}),
		"it is slow":                    fmt.Errorf("%w: it took 60ms", guard.ErrSlow),
		"it does not answer in time":    fmt.Errorf("%w: %w", guard.ErrLate, sluice.ErrUnknownOutcome),
		"it cannot be reached":          fmt.Errorf("%w: dial tcp 10.0.0.1:6379", redisstore.ErrNotSent),
		"calls of it fail; see the log": errors.New("read tcp 10.0.0.1:6379"),
	} {
		if got := reason(err); got != want {
			t.Errorf("reason(%v) = %q, want %q", err, got, want)
		}
	}
}

func TestHealthLogsEachChangeOnce(t *testing.T) {
	var log lockedBuffer
	h := health{logger: slog.New(slog.NewTextHandler(&log, nil))}
	h.mend(tripped)
	h.worsen(tripped, errors.New("first"))
	h.worsen(unanswered, errors.New("second"))
	h.worsen(tripped, nil)
	h.mend(tripped)
	if got := h.trouble(); got == nil || got.why.Error() != "second" {
		t.Errorf("trouble = %v", got)
	}
	h.mend(unanswered)
	h.mend(unanswered)
	if got := h.trouble(); got != nil {
		t.Errorf("trouble = %v without a sign", got)
	}
	text := log.String()
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "error=first") || !strings.Contains(text, "decides again") {
		t.Errorf("the log:\n%s", text)
	}
}

func TestTenantIsAPartOfTheKey(t *testing.T) {
	o, err := storeOptions(&policyfile.RedisStore{Tenant: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Tenant(sluice.NewKey("a", "b", "c")); got != "b" {
		t.Errorf("the tenant is %q", got)
	}
	if got := o.Tenant(sluice.NewKey("a")); got != "a" {
		t.Errorf("the tenant of a shorter key is %q", got)
	}
}
