package proxy

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/direct"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(bothPaths{m}) }

// bothPaths runs all tests twice: with the direct path, and without it.
type bothPaths struct{ *testing.M }

// noDirect makes transports without a direct path.
var noDirect bool

// Run implements goleak.TestingM.
func (b bothPaths) Run() int {
	code := b.M.Run()
	for _, once := range []string{"test.fuzz", "test.list", "test.bench"} {
		if f := flag.Lookup(once); code != 0 || f != nil && f.Value.String() != "" {
			return code
		}
	}
	noDirect = true
	return b.M.Run()
}

// newTransport returns a transport for the path under test.
func newTransport(t *testing.T, o TransportOptions) *Transport {
	t.Helper()
	tr := o.transport(direct.Works && !noDirect)
	t.Cleanup(tr.Close)
	return tr
}

// discard returns a logger that drops its records.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// service starts a service with a handler.
func service(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// front starts a proxy in front of a service; change may change its options.
func front(t *testing.T, target string, tr TransportOptions, change func(*Options)) *httptest.Server {
	t.Helper()
	p := handler(t, target, tr, change)
	s := httptest.NewServer(Bounded(p, p.o.Stall))
	t.Cleanup(s.Close)
	return s
}

// frontOver starts a server with a handler, whose client speaks HTTP/2 if it should.
func frontOver(t *testing.T, h2 bool, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if s.EnableHTTP2 = h2; h2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func handler(t *testing.T, target string, tr TransportOptions, change func(*Options)) *Proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	transport := newTransport(t, tr)
	o := Options{Upstream: u, Transport: transport, Logger: discard()}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// client returns a client whose connections end with the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: edgetest.Patience}
}

// reply is a response without its body.
type reply struct {
	StatusCode      int
	Header, Trailer http.Header
}

func replyOf(r *http.Response) reply { return reply{r.StatusCode, r.Header, r.Trailer} }

// get sends a request and reads the whole response.
func get(t *testing.T, c *http.Client, target string, change func(*http.Request)) (reply, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	return do(t, c, r)
}

func do(t *testing.T, c *http.Client, r *http.Request) (reply, string) {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return replyOf(res), string(body)
}

// wire is a connection on which a test speaks HTTP itself.
type wire struct {
	net.Conn
	in *bufio.Reader
	t  *testing.T
}

func dial(t *testing.T, target string) *wire {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(target, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(edgetest.Patience)); err != nil {
		t.Fatal(err)
	}
	return &wire{c, bufio.NewReader(c), t}
}

// send sends lines, each with a line ending.
func (w *wire) send(lines ...string) {
	w.t.Helper()
	if _, err := io.WriteString(w, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
		w.t.Fatal(err)
	}
}

// header reads a status line and header up to the empty line.
func (w *wire) header() string {
	w.t.Helper()
	var b strings.Builder
	for {
		line, err := w.in.ReadString('\n')
		if err != nil {
			w.t.Fatalf("after %q: %v", b.String(), err)
		}
		if line == "\r\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

// chunk reads one piece of a chunked body.
func (w *wire) chunk() string {
	w.t.Helper()
	var size int
	if _, err := fmt.Fscanf(w.in, "%x\r\n", &size); err != nil {
		w.t.Fatal(err)
	}
	piece := make([]byte, size+2)
	if _, err := io.ReadFull(w.in, piece); err != nil {
		w.t.Fatal(err)
	}
	return string(piece[:size])
}

// await waits for a signal.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), edgetest.Patience)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatalf("%s did not happen", what)
	}
}
