package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// reported records the failures that a proxy reports.
type reported struct {
	mu  sync.Mutex
	all []Failure
}

func (f *reported) add(x Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, x)
}

func (f *reported) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 {
		return "none"
	}
	return f.all[len(f.all)-1].String()
}

// wantProblem checks that a response is a problem document with a status, and reveals nothing
// about the service behind the proxy.
func wantProblem(t *testing.T, res reply, body string, status int, secret string) {
	t.Helper()
	var p struct {
		Status        int
		Title, Detail string
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("the body is not a problem document: %q: %v", body, err)
	}
	if res.StatusCode != status || p.Status != status || p.Title == "" || p.Detail == "" {
		t.Errorf("status %d, problem %+v, want %d", res.StatusCode, p, status)
	}
	if res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("content type %q", res.Header.Get("Content-Type"))
	}
	if secret != "" && strings.Contains(body, secret) {
		t.Errorf("the response reveals %q: %s", secret, body)
	}
}

// unusedAddress returns an address on which nobody listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAnswersForAServiceThatIsNotThere(t *testing.T) {
	var failures reported
	at := unusedAddress(t)
	f := front(t, "http://"+at, TransportOptions{}, func(o *Options) { o.Failed = failures.add })
	res, body := get(t, client(t), f.URL, nil)
	wantProblem(t, res, body, http.StatusBadGateway, at)
	if failures.last() != "unreachable" {
		t.Errorf("counted as %s", failures.last())
	}
}

func TestLogsNoPathOfAFailedRequest(t *testing.T) {
	var lines bytes.Buffer
	h := handler(t, "http://"+unusedAddress(t), TransportOptions{}, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/keys/hunter2?key=hunter2", nil))
	if w.Code != http.StatusBadGateway {
		t.Errorf("status %d", w.Code)
	}
	if text := lines.String(); !strings.Contains(text, "method=PUT") || !strings.Contains(text, "error=") || strings.Contains(text, "hunter2") {
		t.Errorf("the log has %q", text)
	}
}

func TestAnswersForAServiceThatBreaksOff(t *testing.T) {
	var failures reported
	s := service(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.Failed = failures.add })
	res, body := get(t, client(t), f.URL, nil)
	wantProblem(t, res, body, http.StatusBadGateway, s.URL)
	if failures.last() != "broken" {
		t.Errorf("counted as %s", failures.last())
	}
}

func TestAnswersForAServiceThatIsSilent(t *testing.T) {
	var failures reported
	over := make(chan struct{})
	s := service(t, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	f := front(t, s.URL, TransportOptions{Answer: 50 * time.Millisecond}, func(o *Options) { o.Failed = failures.add })
	res, body := get(t, client(t), f.URL, nil)
	wantProblem(t, res, body, http.StatusGatewayTimeout, s.URL)
	if failures.last() != "answer-timeout" {
		t.Errorf("counted as %s", failures.last())
	}
}

func TestBoundsConnectionsAndTheWaitForOne(t *testing.T) {
	var failures reported
	arrived, leave := make(chan struct{}, 8), make(chan struct{})
	s := service(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-leave
	})
	f := front(t, s.URL, TransportOptions{MaxConnections: 1, Connect: 100 * time.Millisecond}, func(o *Options) { o.Failed = failures.add })

	var first sync.WaitGroup
	first.Go(func() {
		if res, _ := get(t, client(t), f.URL, nil); res.StatusCode != http.StatusOK {
			t.Errorf("the first request got %d", res.StatusCode)
		}
	})
	await(t, arrived, "the first request")
	res, body := get(t, client(t), f.URL, nil)
	wantProblem(t, res, body, http.StatusGatewayTimeout, s.URL)
	if failures.last() != "connect-timeout" {
		t.Errorf("counted as %s", failures.last())
	}
	close(leave)
	first.Wait()
	if len(arrived) != 0 {
		t.Error("the second request reached the service over a second connection")
	}
}

// The figures have every kind of failure from the start, and count the failures of clients apart.
func TestEveryKindOfFailureHasAFigure(t *testing.T) {
	m := telemetry.NewMetrics("test")
	var o Options
	o.Report(m, discard())
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, f := range Failures {
		name := "sluice_upstream_failures_total"
		if f.Client() {
			name = "sluice_client_failures_total"
		}
		if !strings.Contains(w.Body.String(), name+"{problem=\""+f.String()+"\"} 0\n") {
			t.Errorf("the figures lack %s for %s", name, f)
		}
	}
}

func TestEndsStalledBodies(t *testing.T) {
	var failures reported
	s := service(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.Stall, o.Failed = 50*time.Millisecond, failures.add })
	c := dial(t, f.URL)
	c.send("POST / HTTP/1.1", "Host: example.com", "Content-Length: 100", "", "a beginning")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 408 ") {
		t.Errorf("header %q", h)
	}
	if failures.last() != "body-stalled" {
		t.Errorf("counted as %s", failures.last())
	}
}

func TestEndsAnswersThatNobodyReads(t *testing.T) {
	ended := make(chan struct{})
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		piece := make([]byte, 1<<20)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.Stall = 50 * time.Millisecond })
	c := dial(t, f.URL)
	c.send("GET / HTTP/1.1", "Host: example.com", "")
	c.header()
	// The client reads nothing more.
	await(t, ended, "the end of the response")
}

func TestConnectionsOutliveAPauseLongerThanTheStall(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d bytes", len(body))
	})
	const stall = 30 * time.Millisecond
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.Stall = stall })
	c := dial(t, f.URL)
	for range 3 {
		c.send("POST / HTTP/1.1", "Host: example.com", "Content-Length: 4", "", "body")
		h := c.header()
		if !strings.HasPrefix(h, "HTTP/1.1 200 ") {
			t.Fatalf("header %q", h)
		}
		if _, err := c.in.Discard(len("6 bytes")); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * stall) // the pause under test
	}
}

func TestBoundsBodiesIfSet(t *testing.T) {
	var failures reported
	s := service(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.MaxBody, o.Failed = 10, failures.add })
	for body, status := range map[string]int{"0123456789": http.StatusOK, "0123456789a": http.StatusRequestEntityTooLarge} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL, io.NopCloser(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		res, text := do(t, client(t), r)
		if res.StatusCode != status {
			t.Errorf("%d bytes: status %d, %s", len(body), res.StatusCode, text)
		}
	}
	if failures.last() != "body-too-large" {
		t.Errorf("counted as %s", failures.last())
	}
}

func TestNoticesThatTheClientIsGone(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	s := service(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("GET / HTTP/1.1", "Host: example.com", "")
	await(t, arrived, "the request")
	c.Close()
	await(t, gone, "the end of the request at the service")
}

func TestOpensNoTunnels(t *testing.T) {
	f := front(t, "http://127.0.0.1:1", TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("CONNECT example.com:443 HTTP/1.1", "Host: example.com:443", "")
	if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 405 ") {
		t.Errorf("header %q", h)
	}
}

func TestRefusesBadOptions(t *testing.T) {
	good := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	transport := newTransport(t, TransportOptions{})
	for want, o := range map[string]Options{
		"not an http:// or https:// URL": {Transport: transport},
		"with a host":                    {Upstream: &url.URL{Scheme: "http"}, Transport: transport},
		`"ftp://h"`:                      {Upstream: &url.URL{Scheme: "ftp", Host: "h"}, Transport: transport},
		"no transport":                   {Upstream: good},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A line of the log says how many failures had no line of their own, if there are some.
func TestLogCountsWhatItHides(t *testing.T) {
	for hidden, want := range map[int]string{0: "", 3: "not_logged=3"} {
		var log strings.Builder
		p := handler(t, "http://127.0.0.1:1", TransportOptions{}, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			o.Sample = func(Failure) (int, bool) { return hidden, true }
		})
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		if !strings.Contains(log.String(), "the upstream gave no answer") || !strings.Contains(log.String(), want) || want == "" && strings.Contains(log.String(), "not_logged") {
			t.Errorf("with %d hidden failures the log is %q, want %q in it", hidden, log.String(), want)
		}
	}
}
