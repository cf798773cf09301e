package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// unread answers each head that arrives with its target, and leaves bodies unread. It ends a connection when a request says so,
// if it obeys. Then it drops the rest, as HTTP says: an end with bytes unread resets the connection, and the answer may be lost.
func unread(c net.Conn, in *bufio.Reader, obeys bool, ran func(target string)) {
	for {
		head := ""
		for !strings.HasSuffix(head, "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if head += line; head == "\r\n" {
				head = ""
			}
		}
		method, rest, _ := strings.Cut(head, " ")
		target, _, _ := strings.Cut(rest, " ")
		ran(target)
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(target))
		if method != http.MethodHead {
			answer += target
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
		if obeys && strings.Contains(head, "\r\nConnection: close\r\n") {
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, in) // until the proxy ends it too
			return
		}
	}
}

// A service that reads no bodies takes a body for the next requests on its connection. So the connection is not used again,
// and a service that obeys does not run them.
func TestBodiesWithoutUseEndTheirConnections(t *testing.T) {
	const inner = "GET /hidden HTTP/1.1\r\nHost: example.com\r\n\r\n"
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW"} {
		for framing, body := range map[string]string{
			fmt.Sprintf("Content-Length: %d", len(inner)): inner,
			"Transfer-Encoding: chunked":                  fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		} {
			for _, obeys := range []bool{true, false} {
				t.Run(fmt.Sprint(method, " ", framing, " ", obeys), func(t *testing.T) {
					targets := make(chan string, 8)
					s := script(t, func(_ *scripted, _ int64, c net.Conn, in *bufio.Reader) {
						unread(c, in, obeys, func(target string) { targets <- target })
					})
					f := front(t, s.url, TransportOptions{}, nil)
					c := dial(t, f.URL)
					c.send(method+" /first HTTP/1.1", "Host: example.com", framing, "", strings.TrimSuffix(body, "\r\n"))
					if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
						t.Fatalf("answer %q", h)
					}
					if _, text := get(t, client(t), f.URL+"/next", nil); text != "/next" {
						t.Errorf("the next client got the answer %q", text)
					}
					if res := fetch(t, client(t), http.MethodPost, f.URL+"/post", "a=b"); res.body != "/post" {
						t.Errorf("the next client with a body got the answer %q", res.body)
					}
					if n := s.accepted.Load(); n < 2 {
						t.Error("the connection was used again")
					}
					for range len(targets) {
						if target := <-targets; obeys && target == "/hidden" {
							t.Error("the service ran a request in a body")
						}
					}
				})
			}
		}
	}
}

// Bodies with their usual methods keep their connections, over TLS too. Others end them there too.
func TestOrdinaryBodiesKeepTheirConnections(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var ports []string
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			ports = append(ports, r.RemoteAddr)
		}))
		o := TransportOptions{}
		if secure {
			s.StartTLS()
			o.TLS = &tls.Config{InsecureSkipVerify: true}
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		f := front(t, s.URL, o, nil)
		c := client(t)
		for _, method := range []string{"POST", "PUT", "PATCH", "POST", "DELETE", "POST"} {
			if res := fetch(t, c, method, f.URL, "body"); res.status != http.StatusOK {
				t.Fatalf("method %s: %+v", method, res)
			}
		}
		if len(ports) != 6 || ports[0] != ports[4] || ports[4] == ports[5] {
			t.Errorf("TLS %t: the connections of POST, PUT, PATCH, POST, DELETE, POST were %v", secure, ports)
		}
	}
}

// A service that answers before it has read a body does not get another request on the connection.
func TestAnswersBeforeTheBodyEndTheirConnections(t *testing.T) {
	targets := make(chan string, 8)
	s := script(t, func(_ *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		unread(c, in, false, func(target string) { targets <- target })
	})
	f := front(t, s.url, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("POST /first HTTP/1.1", "Host: example.com", "Content-Length: 4000", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
		t.Fatalf("answer %q", h)
	}
	_, _ = io.WriteString(c, strings.Repeat("GET /hidden HTTP/1.1\r\nHost: example.com\r\n\r\n", 90)) // the proxy may have closed it
	if res := fetch(t, client(t), http.MethodPost, f.URL+"/post", "a=b"); res.body != "/post" {
		t.Errorf("the next client got the answer %q", res.body)
	}
	if n := s.accepted.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	for range len(targets) {
		if target := <-targets; target == "/hidden" {
			t.Error("the service ran a request in a body")
		}
	}
}

// A service that does not know Expect waits for the body. It gets it soon, and no client waits until the answer is overdue.
func TestSendsTheBodyToServicesThatIgnoreExpect(t *testing.T) {
	s := script(t, answering(ok, false))
	f := front(t, s.url, TransportOptions{Answer: edgetest.Patience}, nil)
	c := dial(t, f.URL)
	c.send("POST / HTTP/1.1", "Host: example.com", "Content-Length: 4", "Expect: 100-continue", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 100 ") {
		t.Fatalf("%q before the body", h)
	}
	_, _ = io.WriteString(c, "body") // the answer shows whether it arrived
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
		t.Errorf("%q after the body", h)
	}
}
