package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/server/internal/config"
	"go.uber.org/goleak"
)

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

// together is how many tests run at once. Most of them wait for time, so it does not depend on the processors.
const together = "8"

func TestMain(m *testing.M) {
	if os.Getenv(isService) != "" {
		serveTests()
		return
	}
	if err := flag.Set("test.parallel", together); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// free has all listeners on free ports.
const free = "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\n"

// The names of the listeners.
const (
	Proxy = "proxy"
	API   = "api"
	Admin = "admin"
	Auth  = "auth"
	GRPC  = "grpc"
	JSON  = "json"
	SPOE  = "spoe"
	RESP  = "resp"
)

// running is an App that runs.
type running struct {
	*App
	t      *testing.T
	log    *lockedBuffer
	client *http.Client
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // after ended
}

// lockedBuffer is written by the App and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// parse reads a configuration.
func parse(t *testing.T, text string) *config.File {
	t.Helper()
	f, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// start runs an App until the test ends; change may change its options.
func start(t *testing.T, f *config.File, change func(*Options)) *running {
	t.Helper()
	r := &running{t: t, log: &lockedBuffer{}, ended: make(chan struct{})}
	o := Options{
		File: f, Version: "test", Linger: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.App = a
	tr := &http.Transport{DisableCompression: true, DialContext: r.dial}
	r.client = &http.Client{Transport: tr, Timeout: patience}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		defer close(r.ended)
		r.err = a.Run(ctx)
	}()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		r.end()
	})
	eventually(t, "the server's readiness", func() bool { return a.Ready() == nil })
	return r
}

// atSocket ends the name of a listener at a Unix socket in URLs of tests.
const atSocket = ".socket"

// dial connects to an address, or to the Unix socket of a listener.
func (r *running) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if name, ok := strings.CutSuffix(strings.TrimSuffix(address, ":80"), atSocket); ok {
		network, address = "unix", strings.TrimPrefix(r.URL(name), "unix:")
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// end stops the App and waits for it.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatal("the server did not end")
	}
}

// reply is an answer without its body.
type reply struct {
	StatusCode      int
	Header, Trailer http.Header
	Proto           string
	TLS             *tls.ConnectionState
}

func replyOf(r *http.Response) reply { return reply{r.StatusCode, r.Header, r.Trailer, r.Proto, r.TLS} }

// send sends one request to a listener; header are pairs.
func (r *running) send(listener, method, path, body string, header ...string) (reply, string) {
	r.t.Helper()
	url := r.URL(listener)
	if strings.HasPrefix(url, "unix:") {
		url = "http://" + listener + atSocket
	}
	q, err := http.NewRequestWithContext(r.t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.HasSuffix(q.Host, atSocket) {
		q.Host = "localhost"
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	res, err := r.client.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return replyOf(res), string(text)
}

// status returns the status of one GET.
func (r *running) status(listener, path string, header ...string) int {
	r.t.Helper()
	res, _ := r.send(listener, http.MethodGet, path, "", header...)
	return res.StatusCode
}

// connect opens a connection to a listener.
func (r *running) connect(listener string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	network, address, _ := strings.Cut(r.URL(listener), "://")
	if path, ok := strings.CutPrefix(network, "unix:"); ok {
		network, address = "unix", path
	} else {
		network = "tcp"
	}
	var d net.Dialer
	c, err := d.DialContext(r.t.Context(), network, address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// memory returns the store, which is in this process.
func (r *running) memory() *memory.Store {
	return r.engine.store.Decides.(*memory.Store) //nolint:forcetypeassert // tests that call it have no Redis
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen", what)
}

// figure returns one of the server's figures.
func (r *running) figure(series string) string {
	r.t.Helper()
	_, text := r.send(Admin, http.MethodGet, "/metrics", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("no %s", series)
}
