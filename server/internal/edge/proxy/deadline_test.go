package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
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
		tr := TransportOptions{}.transport(false)
		tr.plain.RegisterProtocol("http", e)
		p, err := New(Options{Upstream: &url.URL{Scheme: "http", Host: "up.example"}, Transport: tr, Logger: discard()})
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

// The deadline for the next piece of a body is removed at the end of the body, or when it cannot be read, also if it lasts
// from piece to piece: while a service takes its time to answer, nothing is awaited of the client.
func TestNoDeadlineOutlivesABody(t *testing.T) {
	for name, content := range map[string]io.Reader{"the end": strings.NewReader("body"), "an error": iotest.TimeoutReader(strings.NewReader("body"))} {
		var set times
		b := &patientBody{
			ReadCloser: io.NopCloser(content), pace: (&Proxy{o: Options{Stall: time.Minute}}).pace(), until: deadline{of: &set, lasts: true}, http1: true, atEnd: func() {},
		}
		if _, err := io.ReadAll(iotest.OneByteReader(b)); err != nil && !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("reading the body up to %s fails: %v", name, err)
		}
		if len(set) < 2 || set[0].IsZero() || !set[len(set)-1].IsZero() {
			t.Errorf("after %s the deadlines are %v, want one, and then none", name, set)
		}
	}
}
