package app

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
)

// secretive begins a request with secrets, which no log may have.
const secretive = "POST /hunter2?key=hunter2 HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer hunter2\r\nCookie: session=hunter2\r\n"

// malformed are requests that are not HTTP in parts that a proxy reads late.
var malformed = map[string]string{
	"a bad chunk":           secretive + "Transfer-Encoding: chunked\r\n\r\nhunter2\r\n",
	"a chunk that overruns": secretive + "Transfer-Encoding: chunked\r\n\r\n3\r\nhunter2\r\n0\r\n\r\n",
	"a bare LF":             secretive + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
	"a huge chunk":          secretive + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
	"a bad trailer":         secretive + "Transfer-Encoding: chunked\r\nTrailer: hunter2 \"" + strings.Repeat("\\", 1000) + "\"\r\n\r\n0\r\n\r\n",
	"a non-ASCII upgrade":   secretive + "Connection: Upgrade\r\nUpgrade: hunter2" + strings.Repeat("\xff", 1000) + "\r\nContent-Length: 0\r\n\r\n",
}

// TestMalformedRequestsAreTheClients sends what no honest client sends: the client gets 400, the upstream is not to
// blame, and the log neither grows with the requests nor repeats them.
func TestMalformedRequestsAreTheClients(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: "+behind(t, func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) })+roomy), nil)
	times := soak.Times(t, 50)
	for name, request := range malformed {
		for range times {
			c, in := r.connect(Proxy)
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: no response: %v", name, err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				t.Fatalf("%s: answers %d", name, res.StatusCode)
			}
			c.Close()
		}
	}
	if got, want := r.figure(`sluice_client_failures_total{problem="malformed"}`), fmt.Sprint(times*len(malformed)); got != want {
		t.Errorf("%s are counted as malformed; want %s", got, want)
	}
	if got := r.figure(`sluice_upstream_failures_total{problem="broken"}`); got != "0" {
		t.Errorf("the upstream is blamed for %s", got)
	}
	wantModestLog(t, r.log.String(), "a request is malformed")
}

// wantModestLog checks that a log is short, contains a message, and no secret.
func wantModestLog(t *testing.T, text, message string) {
	t.Helper()
	if !strings.Contains(text, message) {
		t.Errorf("the log has no %q", message)
	}
	if strings.Contains(text, "hunter2") {
		t.Error("the log has a secret")
	}
	if len(text) > 64<<10 {
		t.Errorf("the log has %d bytes", len(text))
	}
	for line := range strings.Lines(text) {
		if len(line) > 600 {
			t.Fatalf("the log has a line of %d bytes: %.300s", len(line), line)
		}
	}
}

// TestServerErrorsAreModest sends what package net/http itself logs.
func TestServerErrorsAreModest(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.pair("front")
	r := start(t, parse(t, fmt.Sprintf(`
version: 1
listen: {proxy: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: %s`, cert, key, behind(t, hello))+roomy), nil)
	_, address, _ := strings.Cut(r.URL(Proxy), "://")
	for range 200 {
		c, in := r.connect(Proxy)
		if _, err := io.WriteString(c, secretive+"\r\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, in)
		c.Close()
		d := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1", NextProtos: []string{"hunter2" + strings.Repeat("x", 200)}}}
		if c, err := d.DialContext(t.Context(), "tcp", address); err == nil {
			c.Close()
			t.Fatal("the protocol is accepted")
		}
	}
	wantModestLog(t, r.log.String(), "a TLS handshake failed")
}
