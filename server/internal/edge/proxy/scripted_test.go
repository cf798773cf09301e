package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

// scripted is an upstream that plays a script on each connection.
type scripted struct {
	url      string
	accepted atomic.Int64
	requests atomic.Int64
	mu       sync.Mutex
	open     map[net.Conn]bool
}

// request reads one request from a connection, nil at its end.
func (s *scripted) request(in *bufio.Reader) *http.Request {
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil
	}
	s.requests.Add(1)
	return r
}

// script starts an upstream. The script of a connection gets its number, from 1.
func script(t *testing.T, play func(s *scripted, n int64, c net.Conn, in *bufio.Reader)) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{url: "http://" + l.Addr().String(), open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := s.accepted.Add(1)
			s.mu.Lock()
			s.open[c] = true
			s.mu.Unlock()
			running.Go(func() {
				defer func() {
					c.Close()
					s.mu.Lock()
					defer s.mu.Unlock()
					delete(s.open, c)
				}()
				play(s, n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

// answering returns a script that answers each request with a text.
func answering(text string, closes bool) func(*scripted, int64, net.Conn, *bufio.Reader) {
	return func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		for s.request(in) != nil {
			if _, err := io.WriteString(c, text); err != nil || closes {
				return
			}
		}
	}
}

// result is what a client gets.
type result struct {
	status  int
	body    string
	trailer string
	broken  bool // the answer broke off
}

// fetch sends a request and returns what came.
func fetch(t *testing.T, c *http.Client, method, target, body string) result {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		return result{broken: true}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	got := result{status: res.StatusCode, body: string(text), broken: err != nil}
	if err == nil {
		got.trailer = res.Trailer.Get("X-Sum")
	}
	if res.Header.Get("Content-Type") == "application/problem+json" {
		got.body = ""
	}
	return got
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// scripts are answers of services, with what clients get.
var scripts = []struct {
	name, method, answer string
	closes               bool
	want                 result
}{
	{"a length", "GET", ok, false, result{status: 200, body: "ok"}},
	{"no body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, result{status: 200}},
	{"an answer to a body", "PUT", ok, false, result{status: 200, body: "ok"}},
	{"line feeds only", "GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", false, result{status: 200, body: "ok"}},
	{"chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", false, result{status: 200, body: "ok"}},
	{"trailers", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", false, result{status: 200, body: "ok", trailer: "7"}},
	{"trailers without notice", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", false, result{status: 200, body: "ok", trailer: "7"}},
	{"no length", "GET", "HTTP/1.1 200 OK\r\n\r\nok", true, result{status: 200, body: "ok"}},
	{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\n\r\nok", true, result{status: 200, body: "ok"}},
	{"HTTP/1.0 with a length", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false, result{status: 200, body: "ok"}},
	{"HTTP/1.0 that is kept", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", false, result{status: 200, body: "ok"}},
	{"a close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false, result{status: 200, body: "ok"}},
	{"a close among others", "GET", "HTTP/1.1 200 OK\r\nConnection: x-sum, Close\r\nContent-Length: 2\r\n\r\nok", false, result{status: 200, body: "ok"}},
	{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", false, result{status: 200}},
	{"HEAD with chunks announced", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, result{status: 200}},
	{"HEAD with a body", "HEAD", ok, false, result{status: 200}},
	{"HEAD with chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, result{status: 200}},
	{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", false, result{status: 204}},
	{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", false, result{status: 204}},
	{"204 with a body", "GET", "HTTP/1.1 204 No Content\r\n\r\nok", false, result{status: 204}},
	{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n", false, result{status: 304}},
	{"304 with a body", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok", false, result{status: 304}},
	{"two answers", "GET", ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false, result{status: 200, body: "ok"}},
	{"two answers with chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + ok, false, result{status: 200, body: "ok"}},
	{"a line end beyond", "GET", ok + "\r\n", false, result{status: 200, body: "ok"}},
	{"a length and chunks", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, result{status: 200, body: "ok"}},
	{"chunks before a length", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCONTENT-length: 5\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, result{status: 200, body: "ok"}},
	{"two encodings", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, result{status: 502}},
	{"an unknown encoding", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, result{status: 502}},
	{"an encoding in disguise", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", false, result{status: 502}},
	{"two lengths in a line", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok", false, result{status: 502}},
	{"a length twice", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", false, result{status: 200, body: "ok"}},
	{"a negative length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", false, result{status: 502}},
	{"a signed length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", false, result{status: 502}},
	{"a hexadecimal length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok", false, result{status: 502}},
	{"a length beyond numbers", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok", false, result{status: 502}},
	{"status 099", "GET", "HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"status 000", "GET", "HTTP/1.1 000 None\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"status 999", "GET", "HTTP/1.1 999 High\r\nContent-Length: 2\r\n\r\nok", false, result{status: 999, body: "ok"}},
	{"status 1000", "GET", "HTTP/1.1 1000 Higher\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"status 2000 without a text", "GET", "HTTP/1.1 2000\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"status 20", "GET", "HTTP/1.1 20 Short\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"status -20", "GET", "HTTP/1.1 -20 Negative\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"status +20", "GET", "HTTP/1.1 +20 Signed\r\nContent-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"an unrequested upgrade", "GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false, result{status: 502}},
	{"interim answers", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", mostInterim) + ok, false, result{status: 200, body: "ok"}},
	{"an unrequested 100", "GET", "HTTP/1.1 100 Continue\r\n\r\n" + ok, false, result{status: 200, body: "ok"}},
	{"endless interim answers", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", mostInterim+1) + ok, false, result{status: 502}},
	{"an interim answer only", "GET", "HTTP/1.1 103 Early Hints\r\n\r\n", true, result{status: 502}},
	{"nothing", "GET", "", true, result{status: 502}},
	{"no HTTP", "GET", "SSH-2.0-OpenSSH_9.2\r\n", true, result{status: 502}},
	{"HTTP/0.9", "GET", "ok", true, result{status: 502}},
	{"a space before a colon", "GET", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nok", true, result{status: 200, body: "ok"}},
	{"a line without a colon", "GET", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\nok", false, result{status: 502}},
	{"a first line that is folded", "GET", "HTTP/1.1 200 OK\r\n Content-Length: 2\r\n\r\nok", false, result{status: 502}},
	{"a long header", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Long: " + strings.Repeat("x", upstream.MaxHead) + "\r\n\r\nok", false, result{status: 502}},
	{"many headers", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + strings.Repeat("X-Many: 1\r\n", 3000) + "\r\nok", false, result{status: 200, body: "ok"}},
	{"too many headers", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + strings.Repeat("X-Many: 1\r\n", upstream.MaxHead/10) + "\r\nok", false, result{status: 502}},
	{"an endless header", "GET", "HTTP/1.1 200 OK\r\n" + strings.Repeat("x", 2*upstream.MaxHead), false, result{status: 502}},
	{"a short body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", true, result{status: 200, body: "ok", broken: true}},
	{"a chunk without an end", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok", true, result{status: 200, body: "ok", broken: true}},
	{"chunks without an end", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true, result{status: 200, body: "ok", broken: true}},
	{"chunks without the last line end", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n", true, result{status: 200, body: "ok", broken: true}},
	{"no chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok", true, result{status: 200, broken: true}},
	{"a chunk that is too large", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok\r\n0\r\n\r\n", true, result{status: 200, broken: true}},
	{"a chunk that is longer", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n", true, result{status: 200, body: "o", broken: true}},
}

// TestAnswersOfAllKinds plays answers of all kinds.
func TestAnswersOfAllKinds(t *testing.T) { playScripts(t, answering) }

// TestScriptsByteByByte plays the short ones in as many packets as they have bytes.
func TestScriptsByteByByte(t *testing.T) {
	playScripts(t, func(text string, closes bool) func(*scripted, int64, net.Conn, *bufio.Reader) {
		if len(text) > 1<<10 {
			return answering(text, closes)
		}
		return func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
			for s.request(in) != nil {
				for i := range len(text) {
					if _, err := io.WriteString(c, text[i:i+1]); err != nil {
						return
					}
				}
				if closes {
					return
				}
			}
		}
	})
}

func playScripts(t *testing.T, player func(text string, closes bool) func(*scripted, int64, net.Conn, *bufio.Reader)) {
	t.Helper()
	for _, c := range scripts {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, player(c.answer, c.closes))
			f := front(t, s.url, TransportOptions{}, nil)
			body := ""
			if c.method == http.MethodPut {
				body = "body"
			}
			got := fetch(t, client(t), c.method, f.URL, body)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if n := s.requests.Load(); n != 1 {
				t.Errorf("the service got %d requests", n)
			}
		})
	}
}

// TestEveryOffset closes the connection within answers, at each byte. A client never takes a part for the whole.
func TestEveryOffset(t *testing.T) {
	const digits = "0123456789"
	for name, answer := range map[string]string{
		"a length": "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
		"chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\nX-Sum: 7\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var offset atomic.Int64
			s := script(t, func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
				if s.request(in) != nil {
					_, _ = io.WriteString(c, answer[:offset.Load()])
				}
			})
			f := front(t, s.url, TransportOptions{}, nil)
			cl := client(t)
			final := strings.Index(answer, "HTTP/1.1 200")
			header := final + strings.Index(answer[final:], "\r\n\r\n")
			for n := range len(answer) + 1 {
				offset.Store(int64(n))
				got := fetch(t, cl, http.MethodGet, f.URL, "")
				switch {
				case n == len(answer):
					if got.broken || got.body != digits {
						t.Errorf("whole: %+v", got)
					}
				case n < header+4:
					if got.status != http.StatusBadGateway {
						t.Errorf("%d bytes: %+v", n, got)
					}
				case !got.broken || !strings.HasPrefix(digits, got.body):
					t.Errorf("%d bytes: %+v", n, got)
				}
			}
		})
	}
}
