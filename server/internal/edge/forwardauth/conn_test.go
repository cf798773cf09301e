package forwardauth_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/forwardauth"
)

// serving runs a Server until the test ends, and returns its address.
func serving(t *testing.T, o forwardauth.ServerOptions) (*forwardauth.Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := forwardauth.NewServer(o)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

// connected is a connection of a gateway.
type connected struct {
	*testing.T
	net.Conn
	in *bufio.Reader
}

func connect(t *testing.T, addr string) *connected {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &connected{t, c, bufio.NewReader(c)}
}

func (g *connected) send(text string) {
	g.Helper()
	if _, err := io.WriteString(g, text); err != nil {
		g.Fatal(err)
	}
}

// receive returns the status of an answer, its header and its body.
func (g *connected) receive(method string) (status int, header http.Header, body string) {
	g.Helper()
	res, err := http.ReadResponse(g.in, &http.Request{Method: method})
	if err != nil {
		g.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		g.Fatal(err)
	}
	if res.Close {
		res.Header.Set("Connection", "close")
	}
	return res.StatusCode, res.Header, string(content)
}

// closed reports whether the server closes the connection, after nothing more.
func (g *connected) closed() bool {
	n, err := g.in.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

// described returns a request of nginx.
func described(line, path string, more ...string) string {
	return line + "\r\nHost: sluice\r\n" + strings.Join(nginx("GET", path, "192.0.2.1", more...), "\r\n") + "\r\n\r\n"
}

// A connection answers requests one after the other, in pieces and several at once, and closes when it is requested to.
func TestConnections(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Limits: hourly(1000)}, policy.Rule{Name: "none", Match: matching("/none"), Always: true})
	_, addr := serving(t, forwardauth.ServerOptions{Handler: f.h})
	get := described("GET /auth HTTP/1.1", "/")
	g := connect(t, addr)
	for _, piece := range []string{get, get[:1], get[1:30], get[30 : len(get)-1], get[len(get)-1:], get + get} {
		g.send(piece)
	}
	for range 4 {
		if status, header, body := g.receive("GET"); status != 200 || header.Get("RateLimit") == "" || body != "" || header.Get("Connection") != "" {
			t.Errorf("%d %v %q", status, header, body)
		}
	}
	g.send(described("GET /auth?deny_status=403 HTTP/1.1", "/none"))
	if status, header, body := g.receive("GET"); status != 403 || header.Get("Sluice-Status") != "429" || !strings.Contains(body, "quota-exceeded") {
		t.Errorf("%d %v %q", status, header, body)
	}
	g.send(described("HEAD /auth HTTP/1.1", "/none"))
	if status, header, body := g.receive("HEAD"); status != 429 || header.Get("Content-Length") == "0" || body != "" {
		t.Errorf("%d %v %q", status, header, body)
	}
	g.send(described("GET /auth HTTP/1.1", "/", "Connection: close") + get)
	if status, header, _ := g.receive("GET"); status != 200 || header.Get("Connection") != "close" || !g.closed() {
		t.Errorf("%d %v", status, header)
	}
	for _, lines := range [][]string{nil, {"Connection: keep-alive"}, {"Connection: keep-alive", "Transfer-Encoding: chunked"}} {
		g = connect(t, addr)
		g.send(described("GET /auth HTTP/1.0", "/", lines...) + get)
		if status, header, _ := g.receive("GET"); status != 200 || header.Get("Connection") != "close" || !g.closed() {
			t.Errorf("HTTP/1.0, %q: %d %v", lines, status, header)
		}
	}
}

// What is not one request of HTTP/1 without a body ends the connection.
func TestMalformedConnections(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Limits: hourly(1000)})
	_, addr := serving(t, forwardauth.ServerOptions{Handler: f.h, HeadBytes: 8 << 10})
	get := described("GET /auth HTTP/1.1", "/")
	for text, want := range map[string]int{
		"GET /auth\r\n\r\n": 400, "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n": 400, "GET /auth HTTP/2.0\r\n\r\n": 400, "GET /auth HTTP/1.1\r\n bad\r\n\r\n": 400, "GET /auth HTTP/1.1\r\nA : b\r\n\r\n": 400,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                                          400,
		"GET /auth HTTP/1.1\r\nContent-Length: x\r\n\r\n":                                                           400,
		"GET /auth HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n":                                      400,
		described("GET /auth HTTP/1.1", "/", "Content-Length: 5") + "GET /":                                         400,
		described("GET /auth HTTP/1.1", "/", "Transfer-Encoding: chunked", "Content-Length: 5") + "0\r\n\r\n" + get: 400,
		"GET /auth HTTP/1.1\r\nA: " + strings.Repeat("a", 16<<10) + "\r\n\r\n":                                      431,
		strings.Repeat("a", 16<<10):                                                                                 431,
	} {
		g := connect(t, addr)
		g.send(text)
		if status, _, _ := g.receive("GET"); status != want || !g.closed() {
			t.Errorf("%.60q: %d, want %d", text, status, want)
		}
	}
	if len(f.verdicts) != 0 {
		t.Errorf("decided: %q", f.verdicts)
	}
}

// A connection that sends no request, or half a request, ends.
func TestSlowConnections(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Limits: hourly(1000)})
	_, addr := serving(t, forwardauth.ServerOptions{Handler: f.h, Head: 50 * time.Millisecond, Idle: time.Millisecond})
	for _, text := range []string{"", "GET /auth", described("GET /auth HTTP/1.1", "/")[:60]} {
		g := connect(t, addr)
		g.send(text)
		if answer, err := io.ReadAll(g.in); err != nil || strings.Contains(string(answer), " 200 ") {
			t.Errorf("after %q: %q, %v", text, answer, err)
		}
	}
}

// A gateway that hangs up during a delay gets back what was charged. Its connection can be used again after a delay.
func TestHangUps(t *testing.T) {
	slow := func(path string, perMinute int64) policy.Rule {
		return policy.Rule{
			Name: "slow" + path[1:], Match: matching(path), MaxWait: time.Hour,
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(perMinute), Burst: 1})},
		}
	}
	f := newFixture(t, slow("/", 600), slow("/b", 120))
	_, addr := serving(t, forwardauth.ServerOptions{Handler: f.h})
	get := described("GET /auth HTTP/1.1", "/")
	g := connect(t, addr)
	for range 3 {
		g.send(get)
		if status, _, _ := g.receive("GET"); status != 200 {
			t.Fatal(status)
		}
	}
	g.send(get + get) // the second one arrives during the delay
	for range 2 {
		if status, _, _ := g.receive("GET"); status != 200 {
			t.Fatal(status)
		}
	}
	get = described("GET /auth HTTP/1.1", "/b")
	g.send(get)
	g.receive("GET")
	began := time.Now()
	for range 40 { // 20 seconds of delays
		left := connect(t, addr)
		left.send(get)
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
	g.send(get)
	if status, _, _ := g.receive("GET"); status != 200 || time.Since(began) > 10*time.Second {
		t.Errorf("%d after %v: requests that nobody awaits hold their turns", status, time.Since(began))
	}
}

// A server that drains answers what comes within the linger time, and then closes its connections.
func TestDrain(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Limits: hourly(1000)})
	s, addr := serving(t, forwardauth.ServerOptions{Handler: f.h, Linger: 300 * time.Millisecond})
	get := described("GET /auth HTTP/1.1", "/")
	busy, idle := connect(t, addr), connect(t, addr)
	for _, g := range []*connected{busy, idle} {
		g.send(get)
		g.receive("GET")
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	for { // until the connection is leaving
		busy.send(get)
		status, header, _ := busy.receive("GET")
		if status != 200 {
			t.Fatal(status)
		}
		if header.Get("Connection") == "close" {
			break
		}
	}
	if !busy.closed() || !idle.closed() {
		t.Error("a connection is open")
	}
	if err := <-ended; err != nil || s.Sessions() != 0 {
		t.Errorf("%v, %d sessions", err, s.Sessions())
	}
}

// A handler that panics ends its connection, and nothing else. A header cannot end its line.
func TestHandlers(t *testing.T) {
	panicked := make(chan any, 1)
	_, addr := serving(t, forwardauth.ServerOptions{
		Panicked: func(v any) { panicked <- v },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("so")
			}
			w.Header().Set("X-Evil", "a\r\nX-Other: b\nX-More: c")
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, "body")
		}),
	})
	g := connect(t, addr)
	g.send("GET / HTTP/1.1\r\n\r\n")
	if status, header, body := g.receive("GET"); status != 418 || header.Get("X-Other")+header.Get("X-More") != "" || body != "body" {
		t.Errorf("%d %v %q", status, header, body)
	}
	g.send("GET /panic HTTP/1.1\r\n\r\n")
	if !g.closed() || <-panicked != "so" {
		t.Error("the panic is lost")
	}
}

// FuzzConnection sends bytes: no answer is 200 unless package net/http reads one request for the page from them.
func FuzzConnection(f *testing.F) {
	get := described("GET /auth HTTP/1.1", "/")
	for _, text := range []string{get, get + get, "POST" + get[3:], get[:40], "\r\n" + get, strings.ReplaceAll(get, "\r\n", "\n"), get[:len(get)-2] + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
		f.Add(text)
	}
	x := newFixture(f, policy.Rule{Name: "all", Limits: hourly(1 << 40)})
	f.Fuzz(func(t *testing.T, text string) {
		client, server := net.Pipe()
		s := forwardauth.NewServer(forwardauth.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = "127.0.0.1:1"
			x.h.ServeHTTP(w, r)
		}), Idle: time.Second, Head: time.Second})
		ln := &oneConn{conn: server, ended: make(chan struct{})}
		go func() { _ = s.Serve(ln) }() // until it is closed
		go func() {
			_, _ = io.WriteString(client, text) // the server may close the connection first
			_ = client.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		}()
		answer, _ := io.ReadAll(client) // until the deadline
		_ = client.Close()
		close(ln.ended)
		if strings.Contains(string(answer), "HTTP/1.1 200") {
			if r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text))); err != nil || r.ContentLength != 0 && strings.HasPrefix(string(answer), "HTTP/1.1 200") {
				t.Fatalf("%q is answered: %q", text, answer)
			}
		}
	})
}

// oneConn is a listener of one connection.
type oneConn struct {
	conn  net.Conn
	ended chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}
func (*oneConn) Close() error   { return nil }
func (*oneConn) Addr() net.Addr { return &net.TCPAddr{} }
