package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// early answers while it reads the body, as a transport does whose upstream answers early.
type early struct {
	done chan any // gets what the read panicked with, or nil
}

// RoundTrip implements http.RoundTripper.
func (e early) RoundTrip(r *http.Request) (*http.Response, error) {
	reading := make(chan struct{})
	go func() {
		defer func() { e.done <- recover() }()
		close(reading)
		_, _ = r.Body.Read(make([]byte, 10)) // until the request ends
	}()
	<-reading
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r, ProtoMajor: 1}, nil
}

// A read of a body that is under way when the request has been answered does no harm. Over HTTP/2 it
// could end the whole program with a panic.
func TestReadsABodyBeyondTheAnswer(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		e := early{make(chan any, 1)}
		p, err := New(Options{Upstream: &url.URL{Scheme: "http", Host: "up.example"}, Transport: e, Logger: discard()})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(Bounded(p, 0))
		s.EnableHTTP2 = protocol == "HTTP/2.0"
		s.StartTLS()
		for range 100 {
			body, client := io.Pipe()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(res.Body); err != nil || res.Proto != protocol || res.StatusCode != http.StatusOK {
				t.Errorf("%s: status %s, body %q, %v", res.Proto, res.Status, text, err)
			}
			_ = client.Close()
			_ = res.Body.Close()
			if problem := <-e.done; problem != nil {
				t.Fatalf("%s: the read panics: %v", protocol, problem)
			}
		}
		s.Client().CloseIdleConnections()
		s.Close()
	}
}

// A service may take longer to answer than a client may take for the next piece of its body: the deadline of the body ends
// with the body.
func TestServicesMayTakeLongerThanBodies(t *testing.T) {
	const stall = 200 * time.Millisecond
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done(): // the proxy has given up
		case <-time.After(5 * stall):
			_, _ = io.WriteString(w, "late")
		}
	})
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.Stall, o.Grace, o.MinRate = stall, stall, 1 })
	for _, framing := range []string{"Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"} {
		conn := dial(t, f.URL)
		if _, err := io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n"+framing); err != nil {
			t.Fatal(err)
		}
		status := conn.header()
		if body, err := io.ReadAll(conn.in); err != nil || !strings.Contains(string(body), "late") {
			t.Errorf("with %.14q the answer is %v and %q, %v; want the late answer of the service", framing, status, body, err)
		}
	}
}

// times are the deadlines that were set.
type times []time.Time

func (d *times) setDeadline(at time.Time) error {
	*d = append(*d, at)
	return nil
}

// A deadline that must not pass later is removed at the end of what it bounds. A lasting one is set again only if it is stale.
func TestDeadlinesEnd(t *testing.T) {
	now := time.Unix(1000, 0)
	for lasts, want := range map[bool][]time.Time{
		true:  {now.Add(9 * time.Second)},
		false: {now.Add(9 * time.Second), {}, now.Add(9 * time.Second), {}},
	} {
		var set times
		d := deadline{of: &set, lasts: lasts}
		for range 2 {
			d.begin(now, 8*time.Second)
			d.end()
		}
		if !slices.Equal(set, want) {
			t.Errorf("lasts %v: %v, want %v", lasts, set, want)
		}
	}
}
