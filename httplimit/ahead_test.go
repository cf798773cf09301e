package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
)

// line serves requests of which each waits for the one before, for everybody together.
func line(t *testing.T, rate sluice.Rate, next http.HandlerFunc) (m *httplimit.Middleware, address string) {
	t.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err = httplimit.New(keyed(t, httplimit.KeyOptions{
		Store: store, Key: []httplimit.Part{httplimit.Constant("all")},
		Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.LeakyBucket{Rate: rate, Queue: 10})},
	}), httplimit.Options{MaxDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(m.Wrap(next))
	t.Cleanup(s.Close)
	return m, s.Listener.Addr().String()
}

// send opens a connection and writes to it.
func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// waiting waits until so many requests wait.
func waiting(t *testing.T, m *httplimit.Middleware, n int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(time.Millisecond); m.Waiting() != n; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d requests wait, not %d", m.Waiting(), n)
		}
	}
}

// A client that leaves frees its place, whether or not its request has a body: of one that nobody has
// read, the server does not learn by itself that its client is gone.
func TestClientWithBodyLeaves(t *testing.T) {
	for name, text := range map[string]string{
		"none":    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"sized":   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"part":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nhello",
		"chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m, address := line(t, sluice.PerMinute(2), nothing)
			if res, err := http.Get("http://" + address); err != nil || res.Body.Close() != nil {
				t.Fatal(err)
			}
			conn := send(t, address, text)
			waiting(t, m, 1)
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			waiting(t, m, 0)
		})
	}
}

// What is read of a body while its request waits, the handler reads all the same, however it
// arrives: before the request's turn or after, less than is read ahead or more.
func TestBodyOfWaitingRequest(t *testing.T) {
	for name, parts := range map[string][]string{
		"small":           {"hello", ""},
		"after":           {"", "hello"},
		"both":            {"hel", "lo"},
		"large":           {strings.Repeat("0123456789", 20_000), ""},
		"large and after": {strings.Repeat("0123456789", 20_000), "the end"},
	} {
		t.Run(name, func(t *testing.T) {
			begun, got := make(chan struct{}, 2), make(chan string, 2)
			_, address := line(t, sluice.PerSecond(10), func(_ http.ResponseWriter, r *http.Request) {
				begun <- struct{}{}
				// What has come is there to be read before the rest comes.
				first := make([]byte, len(parts[0]))
				if _, err := io.ReadFull(r.Body, first); err != nil {
					t.Error(err)
				}
				begun <- struct{}{}
				rest, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got <- string(first) + string(rest)
			})
			for range 2 {
				whole := parts[0] + parts[1]
				conn := send(t, address, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(whole), parts[0]))
				<-begun
				<-begun
				if _, err := io.WriteString(conn, parts[1]); err != nil {
					t.Fatal(err)
				}
				if text := <-got; text != whole {
					t.Errorf("%d bytes of %d", len(text), len(whole))
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK || res.Close {
					t.Errorf("%v, %v", res, err)
				}
			}
		})
	}
}
