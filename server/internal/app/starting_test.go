package app

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

func TestSaysWhyItCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := newAuthority(t).pair("localhost")
	off := "off"
	listen := func(proxy, api, admin string) string {
		return fmt.Sprintf("version: 1\nlisten: {proxy: %s, api: %s, admin: %s}\n", proxy, api, admin)
	}
	for name, x := range map[string]struct {
		text   string
		change func(*config.File)
		want   []string
	}{
		"a port in use": {
			listen("'"+taken.Addr().String()+"'", off, off), nil,
			[]string{"proxy", taken.Addr().String(), "in use", "--listen-proxy", "SLUICE_LISTEN_PROXY", "listen.proxy"},
		},
		"an address of another machine": {listen("'192.0.2.1:8080'", off, off), nil, []string{"proxy", "192.0.2.1:8080", "--listen-proxy"}},
		"no listener":                   {listen(off, off, off), nil, []string{"off"}},
		"an admin listener for everybody": {
			free, func(f *config.File) { f.Listen.Admin.Address = "0.0.0.0:0" },
			[]string{"token", "SLUICE_ADMIN_TOKEN", "127.0.0.1"},
		},
		"a decision API for everybody": {
			free, func(f *config.File) { f.Listen.API.Address = "0.0.0.0:0" },
			[]string{"token", "SLUICE_API_TOKEN", "api.open", "0.0.0.0:", "127.0.0.1"},
		},
		"an authority of clients that is not there": {
			free, func(f *config.File) {
				f.Listen.API.TLS = &accept.TLS{Cert: cert, Key: key, ClientCA: empty}
			},
			[]string{"api", "tls.client_ca", "no certificate"},
		},
		"a certificate that is not there": {
			free, func(f *config.File) {
				f.Listen.Proxy.TLS = &accept.TLS{Cert: "/nonexistent.pem", Key: "/nonexistent.key"}
			},
			[]string{"proxy", "/nonexistent.pem", "tls.cert"},
		},
		"an empty authority": {
			free, func(f *config.File) { f.Upstream.URL, f.Upstream.TLS.CA = "https://127.0.0.1:1", empty },
			[]string{"upstream.tls.ca", "no certificate"},
		},
		"a client certificate that is not there": {
			free, func(f *config.File) {
				f.Upstream.URL, f.Upstream.TLS.Cert, f.Upstream.TLS.Key = "https://127.0.0.1:1", "/nonexistent.pem", "/nonexistent.key"
			},
			[]string{"upstream.tls.cert"},
		},
	} {
		f := parse(t, x.text+"rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 9/h}}]")
		if x.change != nil {
			x.change(f)
		}
		a, err := New(Options{File: f, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			a.Close()
			t.Errorf("%s: started", name)
			continue
		}
		for _, want := range append(x.want, "sluice: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", name, want, err)
			}
		}
	}
}

func TestAFailedStartLeavesNoPortOpen(t *testing.T) {
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	f := config.Default()
	f.Listen.Proxy.Address = free()
	f.Listen.API.Address = "192.0.2.1:1"
	if a, err := New(Options{File: f}); err == nil {
		a.Close()
		t.Fatal("started")
	}
	l, err := net.Listen("tcp", f.Listen.Proxy.Address)
	if err != nil {
		t.Fatalf("the port stayed open: %v", err)
	}
	l.Close()
}

func TestListenersCanBeOff(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, "version: 1\nlisten: {proxy: off, api: '127.0.0.1:0', admin: off}\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 9/h}}]"), nil)
	if r.URL(Proxy) != "" || r.URL(Admin) != "" || r.URL(API) == "" {
		t.Errorf("only the API is on, but there are proxy %q, admin %q, API %q", r.URL(Proxy), r.URL(Admin), r.URL(API))
	}
	if got := r.status(API, "/openapi.yaml"); got != 200 {
		t.Errorf("answers %d", got)
	}
}
