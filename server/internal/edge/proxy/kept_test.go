package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// numbered returns a script that answers each request with a text, in which ID is the path of the request.
func numbered(text string) func(*scripted, int64, net.Conn, *bufio.Reader) {
	return func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		for {
			r := s.request(in)
			if r == nil {
				return
			}
			if _, err := io.WriteString(c, strings.ReplaceAll(text, "ID", r.URL.Path)); err != nil {
				return
			}
		}
	}
}

// TestKeepsCleanConnections sends two requests after each other. The second one gets a new connection if the first
// answer leaves a doubt about where it ended, or if the service wants to close.
func TestKeepsCleanConnections(t *testing.T) {
	const chunked, beyond = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for _, c := range []struct {
		name, method, answer string
		kept                 bool
		direct               bool // only the direct path notices
	}{
		{"a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nID", true, false},
		{"no body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true, false},
		{"chunks", "GET", chunked + "\r\n2\r\nID\r\n0\r\n\r\n", true, false},
		{"trailers", "GET", chunked + "Trailer: X-Sum\r\n\r\n2\r\nID\r\n0\r\nX-Sum: 7\r\n\r\n", true, false},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", true, false},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", true, false},
		{"204 with a length of zero", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", true, false},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", true, false},
		{"interim answers", "GET", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nID", true, false},
		{"HTTP/1.0 that is kept", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nID", true, false},

		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nID", false, false},
		{"a close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nID", false, false},
		{"a close in capitals", "GET", "HTTP/1.1 200 OK\r\nConnection: x, CLOSE\r\nContent-Length: 2\r\n\r\nID", false, false},
		{"HEAD with a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nID", false, false},
		{"204 with a body", "GET", "HTTP/1.1 204 No Content\r\n\r\n" + beyond, false, false},
		{"304 with a body", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 43\r\n\r\n" + beyond, false, false},
		{"two answers", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nID" + beyond, false, false},
		{"two answers without a body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + beyond, false, false},
		{"two answers with chunks", "GET", chunked + "\r\n2\r\nID\r\n0\r\n\r\n" + beyond, false, false},
		{"a line end beyond", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nID\r\n", false, false},
		{"204 that announces a body", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 43\r\n\r\n", false, true},
		{"204 that announces chunks", "GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", false, true},
		{"304 that announces chunks", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", false, true},
		{"a length and chunks", "GET", chunked + "content-LENGTH: 3\r\n\r\n2\r\nID\r\n0\r\n\r\n", false, true},
		{"a length before chunks", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.direct && noDirect {
				return
			}
			s := script(t, numbered(c.answer))
			f := front(t, s.url, TransportOptions{}, nil)
			cl := client(t)
			for _, path := range []string{"/1", "/2"} {
				got := fetch(t, cl, c.method, f.URL+path, "")
				if got.broken || got.status/100 == 5 || got.body != "" && got.body != path {
					t.Errorf("%s got the response of another request: %+v", path, got)
				}
			}
			if kept := s.accepted.Load() == 1; kept != c.kept {
				t.Errorf("%d connections", s.accepted.Load())
			}
		})
	}
}

// TestSecondAnswersReachNoBody sends requests with bodies, which package http carries, to a service that answers each one twice. A
// request that finds its connection ended is not repeated, because its body may have been read.
func TestSecondAnswersReachNoBody(t *testing.T) {
	s := script(t, numbered("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nID"+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"))
	f := front(t, s.url, TransportOptions{}, nil)
	cl := client(t)
	for i := range 100 {
		path := fmt.Sprintf("/%02d", i)
		got := fetch(t, cl, http.MethodPost, f.URL+path, "body")
		if got.status != http.StatusBadGateway && (got.status != http.StatusOK || got.body != path) {
			t.Fatalf("%s got the response of another request: %+v", path, got)
		}
	}
}

// TestBytesBetweenRequestsAreNoAnswer lets a service send something after its answer, when nobody has requested it:
// the late 408 of a server that waited for a request too long, a second answer, or the body of an answer to HEAD.
func TestBytesBetweenRequestsAreNoAnswer(t *testing.T) {
	if noDirect {
		return // package http may not notice them in time
	}
	for name, late := range map[string]string{
		"408":                 "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlate",
		"an answer":           "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"a part of an answer": "HTTP/1.1 200 OK\r\nX: ",
		"a line end":          "\r\n",
		"the end":             "",
	} {
		t.Run(name, func(t *testing.T) {
			read, sent := make(chan struct{}), make(chan struct{})
			s := script(t, func(s *scripted, n int64, c net.Conn, in *bufio.Reader) {
				for r := s.request(in); r != nil; r = s.request(in) {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.URL.Path), r.URL.Path)
					if n == 1 {
						<-read
						_, _ = io.WriteString(c, late)
						if late == "" {
							c.Close()
						}
						close(sent)
					}
				}
			})
			f := front(t, s.url, TransportOptions{}, nil)
			cl := client(t)
			for _, path := range []string{"/1", "/2", "/3"} {
				if got := fetch(t, cl, http.MethodGet, f.URL+path, ""); got.status != http.StatusOK || got.body != path {
					t.Errorf("%s got what nobody requested: %+v", path, got)
				}
				if path == "/1" {
					close(read)
					await(t, sent, "the late bytes")
				}
			}
			if n := s.accepted.Load(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestRepeatsARequestOnce sends a request over a connection that the service closes without an answer. The request is
// sent once more only if nothing of an answer has come, and nothing can have happened twice.
func TestRepeatsARequestOnce(t *testing.T) {
	for _, c := range []struct {
		name, method string
		used         bool   // the connection has carried a request before
		answer       string // before the service closes
		repeats      bool
	}{
		{"GET", "GET", true, "", true},
		{"HEAD", "HEAD", true, "", true},
		{"OPTIONS", "OPTIONS", true, "", true},
		{"POST", "POST", true, "", false},
		{"DELETE", "DELETE", true, "", false},
		{"a body", "PUT", true, "", false},
		{"a new connection", "GET", false, "", false},
		{"a byte of an answer", "GET", true, "H", false},
		{"an interim answer", "GET", true, "HTTP/1.1 103 Early Hints\r\n\r\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var closed atomic.Bool
			s := script(t, func(s *scripted, _ int64, conn net.Conn, in *bufio.Reader) {
				for r := s.request(in); r != nil; r = s.request(in) {
					if r.URL.Path == "/closed" && !closed.Swap(true) {
						_, _ = io.WriteString(conn, c.answer)
						return
					}
					_, _ = io.WriteString(conn, ok)
				}
			})
			f := front(t, s.url, TransportOptions{}, nil)
			cl := client(t)
			body, before := "", int64(0)
			if c.name == "a body" {
				body = "body"
			}
			if c.used {
				fetch(t, cl, http.MethodGet, f.URL, "")
				before = 1
			}
			got, want := fetch(t, cl, c.method, f.URL+"/closed", body), http.StatusBadGateway
			sent := int64(1)
			if c.repeats {
				sent, want = 2, http.StatusOK
			}
			if n := s.requests.Load() - before; got.status != want || n != sent {
				t.Errorf("%+v after %d requests", got, n)
			}
		})
	}
}

// TestClosesUnusedConnections closes connections that were unused for too long, and connections that the service has
// closed.
func TestClosesUnusedConnections(t *testing.T) {
	ended := make(chan struct{})
	s := script(t, func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		for s.request(in) != nil {
			_, _ = io.WriteString(c, ok)
		}
		close(ended)
	})
	f := front(t, s.url, TransportOptions{Idle: 50 * time.Millisecond}, nil)
	fetch(t, client(t), http.MethodGet, f.URL, "")
	await(t, ended, "the end of the connection")
}
