package remote

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// What needs a real server is tested in checks/servers.

// at returns the settings of a store at an address.
func at(address string) *Settings {
	s := Default()
	s.Addresses = []string{address}
	return &s
}

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

// open opens the store of a configuration.
func open(t *testing.T, f *Settings) *Store {
	t.Helper()
	s, err := Open(t.Context(), f, slog.New(slog.DiscardHandler), telemetry.NewMetrics("test"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A server that would refuse all that it limits is not ready.
func TestIsNotReadyIfEveryRuleDenies(t *testing.T) {
	f, err := policyfile.Parse("sluice.yaml", []byte("version: 1\non_store_error: deny\nrules:\n  - {name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 4/h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, at(unusedAddress(t)))
	s.SetPolicy(p)
	if err := s.Ready(); !errors.Is(err, ErrDenies) {
		t.Errorf("Ready = %v", err)
	}
	s.health.mend(unconnected)
	if err := s.Ready(); err != nil {
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
	s := open(t, at(l.Addr().String()))
	if took := time.Since(began); took > firstPatience+mismatchPatience+2*time.Second {
		t.Errorf("it took %v to start", took)
	}
	if got := s.health.trouble(); got == nil || !strings.Contains(got.why.Error(), "no answer within") {
		t.Errorf("trouble = %v", got)
	}
	began = time.Now()
	s.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v to end", took)
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
	var log bytes.Buffer
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
	o, err := storeOptions(&Settings{Tenant: 2})
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
