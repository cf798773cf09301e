package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/direct"
)

// watchAfter is when package direct begins to watch requests.
const watchAfter = 50 * time.Millisecond

// TestTakesTheDirectPath counts the requests that package http carries.
func TestTakesTheDirectPath(t *testing.T) {
	if noDirect {
		return
	}
	s := service(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	tr := newTransport(t, TransportOptions{})
	var dials atomic.Int64
	inner := tr.plain.DialContext
	tr.plain.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return inner(ctx, network, address)
	}
	tr.plain.MaxIdleConnsPerHost = -1 // each request dials
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.Transport = tr })
	below := front(t, s.URL+"/base?q=1", TransportOptions{}, func(o *Options) { o.Transport = tr })
	for _, c := range []struct {
		lines  []string
		direct bool
	}{
		{[]string{"GET / HTTP/1.1"}, true},
		{[]string{"HEAD /a%2Fb?c=d HTTP/1.1", "Te: trailers", "Connection: te"}, true},
		{[]string{"POST / HTTP/1.1", "Content-Length: 0"}, true},
		{[]string{"GET / HTTP/1.0"}, true},
		{[]string{"GET / HTTP/1.1", "X-A: a", "Connection: Keep-Alive, X-A"}, true},
		{[]string{"GET / HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c"}, true},
		{[]string{"POST / HTTP/1.1", "Transfer-Encoding: chunked", "", "0", ""}, false},
		{[]string{"GET / HTTP/1.1", "Expect: 100-continue"}, false},
		{[]string{"GET / HTTP/1.1", "Connection: upgrade", "Upgrade: websocket"}, false},
		{[]string{"GET / HTTP/1.1", "X-Long: " + strings.Repeat("x", direct.MostHead)}, false},
	} {
		for _, at := range []string{f.URL, below.URL} {
			before := dials.Load()
			w := dial(t, at)
			w.send(append(append(c.lines[:1:1], "Host: example.com"), append(c.lines[1:], "")...)...)
			if h := w.header(); !strings.Contains(h, " 200 OK\r\n") {
				t.Errorf("%.40q: header %q", c.lines, h)
			}
			if took := dials.Load() == before; took != c.direct {
				t.Errorf("%.40q: direct %t", c.lines, took)
			}
		}
	}
}

// TestAnswersInTime bounds the time until an answer begins, whether it is shorter or longer than the time after which
// requests are watched.
func TestAnswersInTime(t *testing.T) {
	s := script(t, func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		for r := s.request(in); r != nil; r = s.request(in) {
			if r.URL.Path == "/interim" {
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
			}
			if r.URL.Path == "/begun" {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
			}
			if r.URL.Path == "/fast" {
				_, _ = io.WriteString(c, ok)
			}
		}
	})
	for _, limit := range []time.Duration{20 * time.Millisecond, 3 * watchAfter} {
		var failures reported
		f := front(t, s.url, TransportOptions{Answer: limit}, func(o *Options) { o.Failed = failures.add })
		for _, path := range []string{"/", "/fast", "/interim", "/begun"} {
			began := time.Now()
			got, want := fetch(t, client(t), http.MethodGet, f.URL+path, ""), http.StatusGatewayTimeout
			if path == "/fast" {
				want = http.StatusOK
			} else if took := time.Since(began); took < limit || took > limit+edgetest.Patience/2 || failures.last() != "answer-timeout" {
				t.Errorf("%s: %s after %v", path, failures.last(), took)
			}
			if got.status != want {
				t.Errorf("%s: the response is %+v, want status %d", path, got, want)
			}
		}
	}
}

// TestAnswersMayLast sends answers whose bodies last longer than every deadline before them.
func TestAnswersMayLast(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		pause := watchAfter * 3 / 4
		if r.URL.Path == "/late" {
			<-time.After(3 * watchAfter) // the pause under test: the request is watched before the answer begins
		}
		for i := range 6 {
			fmt.Fprint(w, i)
			_ = http.NewResponseController(w).Flush()
			<-time.After(pause) // the pause under test
		}
	})
	for _, limit := range []time.Duration{0, 30 * time.Millisecond, 4 * watchAfter} {
		f := front(t, s.URL, TransportOptions{Answer: limit}, nil)
		for _, path := range []string{"/", "/late", "/"} {
			if path == "/late" && limit == 30*time.Millisecond {
				continue
			}
			got := fetch(t, client(t), http.MethodGet, f.URL+path, "")
			for try := 0; got.status == http.StatusGatewayTimeout && try < 50; try++ { // on a busy machine, an answer may begin too late
				got = fetch(t, client(t), http.MethodGet, f.URL+path, "")
			}
			if got.body != "012345" || got.broken {
				t.Errorf("%s: the body should be complete: %+v", path, got)
			}
		}
	}
}

// TestClientsThatLeaveEndTheirRequests leaves before the answer, within it, and while the connection is waited for. The
// service notices the end of the connection, and the next request gets its own answer.
func TestClientsThatLeaveEndTheirRequests(t *testing.T) {
	for name, begin := range map[string]string{
		"before the answer": "",
		"within the header": "HTTP/1.1 200 OK\r\nX-",
		"within the body":   "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234",
		"within a chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n01234",
		"between hints":     "HTTP/1.1 103 Early Hints\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			arrived, ended := make(chan struct{}), make(chan struct{})
			s := script(t, func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
				for r := s.request(in); r != nil; r = s.request(in) {
					if r.URL.Path != "/left" {
						_, _ = io.WriteString(c, ok)
						continue
					}
					_, _ = io.WriteString(c, begin)
					close(arrived)
					_, _ = in.ReadByte()
					close(ended)
					return
				}
			})
			f := front(t, s.url, TransportOptions{}, nil)
			fetch(t, client(t), http.MethodGet, f.URL, "")
			c := dial(t, f.URL)
			c.send("GET /left HTTP/1.1", "Host: example.com", "")
			await(t, arrived, "the request")
			c.Close()
			await(t, ended, "the end of the connection")
			if got := fetch(t, client(t), http.MethodGet, f.URL, ""); got.body != "ok" {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}
