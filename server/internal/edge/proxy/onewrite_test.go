package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// counting counts the writes to the connections of a listener.
type counting struct {
	net.Listener
	writes atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c, &l.writes}, nil
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestSmallAnswersLeaveInOneWrite sends each client its answer as one packet, if the service has sent it so.
func TestSmallAnswersLeaveInOneWrite(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunked":
			fmt.Fprint(w, "some")
			_ = http.NewResponseController(w).Flush() // makes it chunked
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprint(w, "some text")
		}
	})
	for path, most := range map[string]int64{"/": 1, "/none": 1, "/chunked": 2} {
		l := &counting{}
		f := httptest.NewUnstartedServer(Bounded(handler(t, s.URL, TransportOptions{}, nil), 0))
		l.Listener, f.Listener = f.Listener, l
		f.Start()
		t.Cleanup(f.Close)
		c := client(t)
		const requests = 50
		for range requests {
			if res, _ := get(t, c, f.URL+path, nil); res.StatusCode/100 != 2 {
				t.Errorf("%s: status %d", path, res.StatusCode)
			}
		}
		if got := l.writes.Load(); got < requests || got > most*requests {
			t.Errorf("%s: %d writes for %d answers", path, got, requests)
		}
	}
}

// TestHeadersLeaveBeforeTheBody passes a header on while the service thinks about the body.
func TestHeadersLeaveBeforeTheBody(t *testing.T) {
	read := make(chan struct{})
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		if length := r.URL.Query().Get("length"); length != "" {
			w.Header().Set("Content-Length", length)
		}
		_ = http.NewResponseController(w).Flush()
		await(t, read, "the client to read the header")
		fmt.Fprint(w, "text")
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	for _, query := range []string{"", "?length=4"} {
		c := dial(t, f.URL)
		c.send("GET /"+query+" HTTP/1.1", "Host: example.com", "")
		if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
			t.Errorf("header %q", h)
		}
		read <- struct{}{}
	}
}
