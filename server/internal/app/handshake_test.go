package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Handshakes that fail are counted for each listener, and some of them are logged.
func TestFailedHandshakesAreCounted(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.pair("front")
	at := fmt.Sprintf("{address: '127.0.0.1:0', tls: {cert: %q, key: %q, client_ca: %q}}", cert, key, a.file)
	names := []string{Proxy, API, Auth, GRPC, JSON, SPOE, RESP}
	text := "version: 1\ntrusted_proxies: [127.0.0.1]\nupstream: http://127.0.0.1:1\nlisten:\n  admin: '127.0.0.1:0'\n"
	for _, name := range names {
		text += "  " + name + ": " + at + "\n"
	}
	r := start(t, parse(t, text+"rules: [{name: one, key: client_ip, limit: {algorithm: fixed_window, rate: 9/d}}]\n"), nil)
	for _, name := range names {
		u, err := url.Parse(r.URL(name))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // without a certificate
			conn, err := tls.Dial("tcp", u.Host, &tls.Config{RootCAs: a.pool(), NextProtos: []string{"h2"}})
			if err != nil {
				continue
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
				t.Errorf("%s: the server should require a certificate: %v", name, err)
			}
			_ = conn.Close()
		}
		probe, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		_ = probe.Close()
		series := `sluice_tls_handshakes_failed_total{listener="` + name + `"}`
		line := `msg="a TLS handshake failed" listener=` + name + ` error="tls: client didn't provide a certificate"`
		eventually(t, "three handshakes at "+name+", two in the log", func() bool {
			return r.figure(series) == "3" && strings.Count(r.log.String(), line) == 2 // a failure is counted before it is logged
		})
	}
}

// A certificate that has expired is logged when it is read, and when it is served.
func TestExpiredCertificatesAreLogged(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.life = -time.Minute
	cert, key := a.pair("front")
	r := start(t, parse(t, fmt.Sprintf("version: 1\nlisten: {proxy: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}, api: 'off', admin: '127.0.0.1:0'}\nupstream: http://127.0.0.1:1\nrules: []\n", cert, key)), nil)
	const line = `level=ERROR msg="the certificate of a listener is not valid now, so clients refuse it; replace its file" listener=proxy not_before=`
	if got := strings.Count(r.log.String(), line); got != 1 {
		t.Errorf("%d lines at the start:\n%s", got, r.log.String())
	}
	a.life = 0
	a.pair("front")
	if err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(r.log.String(), line); got != 1 {
		t.Errorf("%d lines after a valid certificate", got)
	}
}
