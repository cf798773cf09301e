package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
)

// socketFolder returns a new folder with a path that is short enough for sockets.
func socketFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // the path of t.TempDir has the name of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the system clears what is left
	return dir
}

// everyListener has all listeners at Unix sockets of a folder, DIR.
const everyListener = `version: 1
listen:
  proxy: {address: "unix:DIR/proxy", mode: "0606"}
  api: unix:DIR/api
  admin: unix:DIR/admin
  auth: unix:DIR/auth
  grpc: unix:DIR/grpc
  json: unix:DIR/json
  spoe: unix:DIR/spoe
  resp: unix:DIR/resp
trusted_proxies: unix
rules:
  - {name: one, match: {path: /**}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/h}}
  - {name: per-address, descriptor: {domain: edge, entries: [remote_address]}, limit: {algorithm: fixed_window, rate: 1/d}}
`

// Every listener answers at a Unix socket. Its file has the mode of the setting, and is gone when the server has ended.
func TestEveryListenerAtASocket(t *testing.T) {
	t.Parallel()
	dir := socketFolder(t)
	r := start(t, parse(t, strings.ReplaceAll(everyListener, "DIR", dir)), nil)
	for name, mode := range map[string]os.FileMode{Proxy: 0o606, API: 0o660, Admin: 0o660, Auth: 0o660, GRPC: 0o660, JSON: 0o660, SPOE: 0o660, RESP: 0o660} {
		path := filepath.Join(dir, name)
		if r.URL(name) != "unix:"+path {
			t.Errorf("%s is at %s", name, r.URL(name))
		}
		announced(t, r, name+" unix:"+path)
		if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|mode {
			t.Errorf("%s: the socket is %v, %v; want mode %v", name, info, err, mode)
		}
	}
	var text strings.Builder
	r.announceQuickStart(&text)
	if want := "curl -si --unix-socket " + filepath.Join(dir, Proxy) + " http://localhost/"; !strings.Contains(text.String(), want) {
		t.Errorf("the quick start lacks %q:\n%s", want, text.String())
	}

	if got := r.status(Proxy, "/", "X-Forwarded-For", "192.0.2.1"); got != 200 {
		t.Errorf("the proxy answers %d", got)
	}
	if res, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "/", "client_ip": "192.0.2.1"}`, "Content-Type", "application/json"); res.StatusCode != http.StatusOK || !strings.Contains(text, `"allowed":false`) {
		t.Errorf("the API answers %d %s", res.StatusCode, text)
	}
	if got := r.figure(`sluice_decisions_total{outcome="allowed",rule="one"}`); got != "1" {
		t.Errorf("the admin listener counts %s", got)
	}
	describing := []string{"X-Original-Method", "GET", "X-Original-URI", "/", "X-Original-Host", "a.example", "X-Real-IP", "192.0.2.1"}
	if got := r.status(Auth, "/auth", describing...); got != http.StatusTooManyRequests {
		t.Errorf("auth answers %d", got)
	}
	if got := r.shouldLimit(r.dialGRPC(insecure.NewCredentials()), "192.0.2.1"); got != "OK" {
		t.Errorf("grpc answers %s", got)
	}
	if got := r.status(JSON, "/healthcheck"); got != 200 {
		t.Errorf("json answers %d", got)
	}
	c, in := r.connect(RESP)
	if got := lines(t, c, in, "PING\r\n", 1); got != "+PONG" {
		t.Errorf("resp answers %q", got)
	}
	c, in = r.connect(SPOE)
	fmt.Fprint(c, "\x00\x00\x00\x01\x00")
	if length, err := in.ReadByte(); err != nil || length != 0 {
		t.Errorf("spoe answers what is not SPOP with %d %v, want a frame", length, err)
	}
	r.end()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || r.err != nil {
		t.Errorf("after the end there are %v: %v %v", left, err, r.err)
	}
}

// Without unix in trusted_proxies, nobody at a Unix socket gets an answer of the listeners for gateways.
func TestSocketsOfStrangers(t *testing.T) {
	t.Parallel()
	dir := socketFolder(t)
	f := parse(t, strings.ReplaceAll(everyListener, "DIR", dir))
	f.TrustedProxies = nil
	r := start(t, f, nil)
	describing := []string{"X-Original-Method", "GET", "X-Original-URI", "/", "X-Original-Host", "a.example", "X-Real-IP", "192.0.2.1"}
	if got, body := r.send(Auth, http.MethodGet, "/auth", "", describing...); got.StatusCode != http.StatusForbidden || !strings.Contains(body, "unix") {
		t.Errorf("a stranger at auth: %d %s", got.StatusCode, body)
	}
	c, in := r.connect(SPOE)
	fmt.Fprint(c, "\x00\x00\x00\x01\x00")
	if b, err := in.ReadByte(); err == nil {
		t.Errorf("a stranger at spoe gets %d", b)
	}
	eventually(t, "the reason", func() bool { return strings.Contains(r.log.String(), "not in trusted_proxies") })
}

// atProxy has the proxy at a Unix socket, before a service that shows what it gets.
func atProxy(t *testing.T, settings string) *running {
	t.Helper()
	return start(t, parse(t, strings.ReplaceAll(`version: 1
listen: {proxy: "unix:DIR/proxy", api: off, admin: "unix:DIR/admin"}
`+settings, "DIR", socketFolder(t))), nil)
}

// dialFrom opens a connection to the proxy from a socket with a name of the client's choice.
func dialFrom(t *testing.T, r *running, name string) net.Conn {
	t.Helper()
	d := net.Dialer{}
	if name != "" {
		d.LocalAddr = &net.UnixAddr{Name: name, Net: "unix"}
	}
	c, err := d.DialContext(t.Context(), "unix", strings.TrimPrefix(r.URL(Proxy), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// A client at a Unix socket that is not trusted has no address, whatever it sends and however it names its own end. All such
// clients share the budget of requests without an address, and the service gets no address.
func TestClientsAtASocketChooseNoAddress(t *testing.T) {
	t.Chdir(socketFolder(t)) // names without a slash are relative to it
	r := atProxy(t, `trusted_proxies: [10.0.0.0/8, "::/1"]
trust_marks: true
rules:
  - {name: shared, key: client_ip, match: {path: /shared}, limit: {algorithm: fixed_window, rate: 3/h}}
  - {name: refused, key: {part: client_ip, on_missing: deny}, match: {path: /refused}, limit: {algorithm: fixed_window, rate: 1000/h}}
  - {name: listed, key: client_ip, match: {path: /listed}, allow: {client_ip: [10.0.0.0/8, 127.0.0.1, "::/0"]}, limit: {algorithm: fixed_window, rate: 1/h}}
`)
	headers := []string{
		"", "X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 192.0.2.1, 10.0.0.2", "X-Forwarded-For: 192.0.2.3\r\nX-Forwarded-For: 10.0.0.1", "X-Forwarded-For: unix:",
		"X-Real-IP: 10.0.0.1", "Forwarded: for=10.0.0.1", "X-Forwarded-For: ::1", "X-Forwarded-For: @",
		"Sluice-Marked: earlier",
	}
	names := []string{"", "10.0.0.1:80", "127.0.0.1:1", "[::1]:80", "10.0.0.1", "unix:", "@10.0.0.1:80"}
	ask := func(name, path, header string) (int, string) {
		c := dialFrom(t, r, name)
		if header != "" {
			header += "\r\n"
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s\r\n", path, header)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = os.Remove(name) // the next client may have the same
		return res.StatusCode, string(body)
	}
	passed := map[string]int{}
	for _, name := range names {
		for _, header := range headers {
			for _, path := range []string{"/shared", "/refused", "/listed", "/free"} {
				status, body := ask(name, path, header)
				if status == http.StatusOK {
					passed[path]++
				}
				for _, sent := range []string{"X-Forwarded-For", "X-Real-Ip", "10.0.0", "192.0.2", "Forwarded: ", "Sluice-Marked"} {
					if status == http.StatusOK && strings.Contains(body, sent) {
						t.Errorf("%q, %q: the service gets %s", name, header, body)
					}
				}
			}
		}
	}
	all := len(names) * len(headers)
	if passed["/shared"] != 3 || passed["/refused"] != 0 || passed["/listed"] != 1 || passed["/free"] != all {
		t.Errorf("of %d requests each, these pass: %v", all, passed)
	}
	for _, text := range []string{"10.0.0", "192.0.2"} {
		if strings.Contains(r.log.String(), text) {
			t.Errorf("the log has an address of a client's choice:\n%s", r.log)
		}
	}
}

// A trusted gateway at a Unix socket names the client, as one with an address does.
func TestGatewaysAtASocketNameTheClient(t *testing.T) {
	t.Parallel()
	r := atProxy(t, `trusted_proxies: [unix, 10.0.0.0/8]
trust_marks: true
rules:
  - {name: each, key: {part: client_ip, on_missing: deny}, limit: {algorithm: fixed_window, rate: 1/h}}
`)
	for i, c := range []struct {
		status  int
		headers []string
		service string // what it gets
	}{
		{200, []string{"192.0.2.1"}, "X-Forwarded-For: 192.0.2.1\n"},
		{429, []string{"192.0.2.1"}, ""},
		{200, []string{"6.6.6.6, 192.0.2.2"}, "X-Forwarded-For: 6.6.6.6, 192.0.2.2\n"},
		{429, []string{"7.7.7.7, 192.0.2.2"}, ""},
		{429, []string{"7.7.7.7", "192.0.2.2, 10.0.0.3"}, ""},
		{200, []string{"7.7.7.7", "192.0.2.3, 10.0.0.3"}, "X-Forwarded-For: 7.7.7.7, 192.0.2.3, 10.0.0.3\n"},
		{400, nil, ""},                          // the gateway's own request
		{400, []string{""}, ""},                 // no address
		{400, []string{"192.0.2.9, unix:"}, ""}, // a gateway before it, at a socket of its own
		{400, []string{"192.0.2.9, @"}, ""},
		{400, []string{"unix"}, ""},
		{429, []string{"[::ffff:192.0.2.1]:80"}, ""},
	} {
		var header []string
		for _, line := range c.headers {
			header = append(header, "X-Forwarded-For", line)
		}
		res, body := r.send(Proxy, http.MethodGet, "/", "", append(header, "X-Forwarded-Proto", "https", "Sluice-Marked", "earlier")...)
		if res.StatusCode != c.status || !strings.Contains(body, c.service) {
			t.Errorf("%d, %q: %d %s, want %d", i, c.headers, res.StatusCode, body, c.status)
		}
		if res.StatusCode == http.StatusOK && (!strings.Contains(body, "X-Real-Ip: 192.0.2.") || !strings.Contains(body, "X-Forwarded-Proto: https") || !strings.Contains(body, "Sluice-Marked: earlier")) {
			t.Errorf("%q: the service gets %s", c.headers, body)
		}
	}
}

// A header of the PROXY protocol names the client at a Unix socket, if unix is trusted.
func TestProxyProtocolAtASocket(t *testing.T) {
	t.Parallel()
	text := strings.Replace(behindBalancer, `"127.0.0.1:0", proxy_protocol`, `"unix:`+socketFolder(t)+`/proxy", proxy_protocol`, 1)
	r := start(t, parse(t, strings.Replace(text, "127.0.0.1/32", "unix", 1)), nil)
	const header = "PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\r\n"
	for i, want := range []int{200, 200, 429} {
		if got := answerTo(t, dialFrom(t, r, ""), header+request); got != want {
			t.Errorf("request %d is answered %d, want %d", i, got, want)
		}
	}
	if got := answerTo(t, dialFrom(t, r, ""), request); got != 0 {
		t.Errorf("a connection without the header is answered %d", got)
	}
	strange := parse(t, strings.Replace(text, "127.0.0.1/32", "unix", 1))
	strange.Listen.Proxy.Address, strange.TrustedProxies = "unix:"+socketFolder(t)+"/proxy", nil
	if got := answerTo(t, dialFrom(t, start(t, strange, nil), ""), header+request); got != 400 {
		t.Errorf("the header of a stranger is answered %d", got)
	}
}

// A listener at a Unix socket serves TLS, with or without certificates of clients.
func TestTLSAtASocket(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.pair("localhost")
	path := filepath.Join(socketFolder(t), "api")
	r := start(t, parse(t, fmt.Sprintf("version: 1\nlisten: {proxy: off, admin: '127.0.0.1:0', api: {address: 'unix:%s', tls: {cert: %q, key: %q, client_ca: %q}}}\n", path, cert, key, ca.file)), nil)
	announced(t, r, "api unix:"+path, "over TLS, with a client certificate")
	mine, myKey := ca.pair("client")
	own, err := tls.LoadX509KeyPair(mine, myKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		own  []tls.Certificate
		want bool
	}{{[]tls.Certificate{own}, true}, {nil, false}} {
		tr := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: ca.pool(), Certificates: x.own},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
		}
		res, err := (&http.Client{Transport: tr, Timeout: patience}).Get("https://localhost/openapi.yaml")
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != x.want {
			t.Errorf("with %d certificates: %v", len(x.own), err)
		}
		tr.CloseIdleConnections()
	}
}

// The audit log names the socket of a caller, and never a name of the caller's choice.
func TestAuditAtASocket(t *testing.T) {
	dir := socketFolder(t)
	t.Chdir(dir)
	file := filepath.Join(dir, "audit.log")
	r := start(t, parse(t, "version: 1\nlisten: {proxy: off, api: off, admin: 'unix:"+dir+"/admin'}\naudit: {file: "+file+"}\n"+
		"rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 5/m}}]\n"), nil)
	d := net.Dialer{LocalAddr: &net.UnixAddr{Name: "10.0.0.1:80", Net: "unix"}}
	c, err := d.DialContext(t.Context(), "unix", filepath.Join(dir, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"rule": "a", "key": ["192.0.2.1"]}`
	if got := answerTo(t, c, fmt.Sprintf("POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)); got != 200 {
		t.Fatalf("the reset is answered %d", got)
	}
	r.end()
	log, err := os.ReadFile(file)
	if want := fmt.Sprintf(`"from":"unix","at":"%s/admin"`, dir); err != nil || !strings.Contains(string(log), want) || strings.Contains(string(log), "10.0.0.1") {
		t.Errorf("the audit log lacks %s: %v\n%s", want, err, log)
	}
}

// Only the file of a program that has ended is replaced.
func TestFilesAtTheirPath(t *testing.T) {
	t.Parallel()
	dir := socketFolder(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("nowhere"), at("link")); err != nil {
		t.Fatal(err)
	}
	live, err := net.Listen("unix", at("live"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	stale, err := net.Listen("unix", at("stale"))
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("unixgram", at("packets"))
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for name, want := range map[string]string{
		"file":    "there is a file that is not a socket; remove it, or listen elsewhere: --listen-api unix:PATH, SLUICE_LISTEN_API, or listen.api in the configuration",
		"link":    "there is a file that is not a socket",
		"live":    "/live is in use by another program; stop that one, or listen elsewhere",
		"packets": "whether a program listens is unknown",
		"none/a":  "/none does not exist; make it, and let this program write there, or listen elsewhere",
		"file/a":  "not a directory",
		"stale":   "",
		"new":     "",
	} {
		f := parse(t, "version: 1\nlisten: {proxy: off, api: 'unix:"+at(name)+"', admin: off}\n")
		a, err := New(Options{File: f})
		if err == nil {
			a.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if text, err := os.ReadFile(at("file")); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q: %v", text, err)
	}
	for _, name := range []string{"stale", "new"} {
		if _, err := os.Lstat(at(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if _, err := os.Lstat(at("live")); err != nil {
		t.Error(err)
	}
}

// A draining server answers the connections that clients have made. Later clients find no socket.
func TestADrainAnswersWhatWaitsAtASocket(t *testing.T) {
	t.Parallel()
	r := atProxy(t, "rules: []\n")
	path := strings.TrimPrefix(r.URL(Proxy), "unix:")
	var answered, lost int
	for stop := false; ; {
		c, err := net.Dial("unix", path)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a later client gets %v", err)
			}
			break
		}
		_ = c.SetDeadline(time.Now().Add(patience)) // a connection that is not answered fails below
		if !stop && answered == 50 {
			r.stop()
			stop = true
		}
		if got := answerTo(t, c, request); got == 200 {
			answered++
		} else {
			lost++
		}
		_ = c.Close()
	}
	r.end()
	if answered < 50 || lost > 0 {
		t.Errorf("%d connections are answered, and %d are lost", answered, lost)
	}
}
