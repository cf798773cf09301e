package direct

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// steps count the connections that got a request.
type steps struct{ forwarded atomic.Int64 }

func (s *steps) Forwarded()                     { s.forwarded.Add(1) }
func (s *steps) Withdrawn()                     { s.forwarded.Add(-1) }
func (*steps) Interim(int, http.Header) error   { return nil }
func (*steps) Outlasts() bool                   { return false }
func dialer() upstream.Dial                     { return (&net.Dialer{}).DialContext }
func newClient(t *testing.T, o Options) *Client { t.Helper(); return closed(t, New(o)) }

// closed closes a client at the end of a test.
func closed(t *testing.T, c *Client) *Client {
	t.Helper()
	t.Cleanup(c.Close)
	return c
}

// service starts a service that plays a script on each connection, from number 1. It returns the address of the
// service, and how many connections it has accepted.
func service(t *testing.T, play func(n int64, c net.Conn, in *bufio.Reader)) (address string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int64{}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				play(accepted.Add(1), c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return l.Addr().String(), accepted
}

// head reads the head of a request, and reports whether one came.
func head(in *bufio.Reader) bool {
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return err == nil
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// send sends a request, and reads the answer.
func send(ctx context.Context, c *Client, address string, s Steps) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	got, err := c.Send(ctx, Request{Request: r, Address: address, Head: []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Steps: s})
	if err != nil {
		return err
	}
	body := io.ReadCloser(got.Plain)
	if got.Plain == nil {
		body = got.Response.Body
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

// TestServicesThatSpeakFirst are broken: they cannot have answered a request that they do not have.
func TestServicesThatSpeakFirst(t *testing.T) {
	address, _ := service(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(c, ok)
		_, _ = in.ReadByte()
	})
	dial := dialer()
	c := newClient(t, Options{Connect: edgetest.Patience, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err == nil {
			raw, _ := c.(*net.TCPConn).SyscallConn()
			_ = raw.Read(func(fd uintptr) bool { return !isQuiet(fd, make([]byte, 1)) }) // until it has spoken
		}
		return c, err
	}})
	if err := send(t.Context(), c, address, &steps{}); err != errStale { //nolint:errorlint // it is this value
		t.Errorf("a request to a service that has spoken first gets %v, want %v", err, errStale)
	}
}

func TestSweepsConnectionsThatTheServiceClosed(t *testing.T) {
	end := make(chan struct{})
	address, accepted := service(t, func(n int64, c net.Conn, in *bufio.Reader) {
		for head(in) {
			_, _ = io.WriteString(c, ok)
			if n == 1 {
				c.Close()
				close(end)
			}
		}
	})
	c := newClient(t, Options{Dial: dialer(), Connect: edgetest.Patience, Idle: time.Minute, MaxIdle: 8})
	if err := send(t.Context(), c, address, &steps{}); err != nil {
		t.Fatal(err)
	}
	<-end
	upstreams := func() int {
		c.sweep()
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.origins)
	}
	edgetest.Eventually(t, "the sweep", func() bool { return upstreams() == 0 })
	if err := send(t.Context(), c, address, &steps{}); err != nil {
		t.Fatal(err)
	}
	if n := upstreams(); accepted.Load() != 2 || n != 1 {
		t.Errorf("%d connections, %d upstreams", accepted.Load(), n)
	}
}

// TestBoundsUnusedConnections keeps no more than it may.
func TestBoundsUnusedConnections(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(5)
	address, _ := service(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		if head(in) {
			arrived.Done()
			arrived.Wait() // all connections are in use at once
			_, _ = io.WriteString(c, ok)
			_, _ = in.ReadByte()
		}
	})
	c := newClient(t, Options{Dial: dialer(), Connect: edgetest.Patience, Idle: time.Minute, MaxIdle: 2})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := send(t.Context(), c, address, &steps{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.origins[address].open; n != 2 {
		t.Errorf("%d connections", n)
	}
}

// TestSendsNothingOfRequestsThatEnd ends a request while the only connection to the service is in use.
func TestSendsNothingOfRequestsThatEnd(t *testing.T) {
	arrived, over := make(chan struct{}), make(chan struct{})
	address, _ := service(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		if head(in) {
			close(arrived)
			<-over
			_, _ = io.WriteString(c, ok)
			_, _ = in.ReadByte()
		}
	})
	c := newClient(t, Options{Dial: dialer(), Connect: edgetest.Patience, Idle: time.Minute, MaxIdle: 8, MaxConnections: 1})
	first, second := make(chan error), make(chan error)
	go func() { first <- send(t.Context(), c, address, &steps{}) }()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	var seen steps
	go func() { second <- send(ctx, c, address, &seen) }()
	cancel()
	if err := <-second; err == nil || seen.forwarded.Load() != 0 {
		t.Errorf("sent %d times: %v", seen.forwarded.Load(), err)
	}
	close(over)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestKeptConnectionsAreSmall keeps many unused connections to a service, and compares the memory with http.Transport's.
// With SLUICE_SOAK there are 9,000.
func TestKeptConnectionsAreSmall(t *testing.T) {
	n := 200
	if os.Getenv("SLUICE_SOAK") != "" {
		n = 9000
	}
	c := New(Options{Dial: dialer(), Connect: time.Minute, Idle: time.Minute, MaxIdle: n})
	direct := memoryOfKept(t, n, func(address string) error { return send(t.Context(), c, address, &steps{}) }, c.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: n, MaxIdleConns: n}
	other := memoryOfKept(t, n, func(address string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, strings.NewReader(""))
		if err != nil {
			return err
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}, transport.CloseIdleConnections)
	t.Logf("%d connections: %d bytes each, http.Transport's and its service's %d", n, direct, other)
	if direct > other*2/3 {
		t.Errorf("a kept connection takes %d bytes, http.Transport's %d", direct, other)
	}
}

// memoryOfKept returns the bytes of heap and stacks for each of some unused connections, with the side of the service.
func memoryOfKept(t *testing.T, n int, send func(address string) error, end func()) int64 {
	t.Helper()
	var arrived sync.WaitGroup
	arrived.Add(n)
	address, _ := service(t, func(_ int64, c net.Conn, in *bufio.Reader) {
		if head(in) {
			arrived.Done()
			arrived.Wait() // all connections are in use at once
			_, _ = io.WriteString(c, ok)
			_, _ = in.ReadByte()
		}
	})
	before := memoryInUse()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := send(address); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	used := (memoryInUse() - before) / int64(n)
	end()
	return used
}

// memoryInUse returns the bytes of heap and stacks in use.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // what pools hold is free after the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A request is sent once more if a kept connection failed before anything of an answer came, and nothing can happen twice.
func TestRepeatsOnlyWhatCannotHappenTwice(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("the connection is broken")
	for _, c := range []struct {
		name, method, header string
		change               func(*conn)
		err                  error
		want                 bool
	}{
		{"nothing was sent", "POST", "", func(d *conn) { d.sending.n = 0 }, broken, true},
		{"something was sent", "POST", "", func(*conn) {}, broken, false},
		{"it changes nothing", "GET", "", func(*conn) {}, broken, true},
		{"the service recognizes it", "POST", "Idempotency-Key", func(*conn) {}, broken, true},
		{"the service recognizes it by an older name", "DELETE", "X-Idempotency-Key", func(*conn) {}, broken, true},
		{"a new connection", "GET", "", func(d *conn) { d.reused = false }, broken, false},
		{"an answer has begun", "GET", "", func(d *conn) { d.got = true }, broken, false},
		{"the client has left", "GET", "", func(d *conn) { d.ctx = ended }, broken, false},
		{"the service took too long", "GET", "", func(*conn) {}, os.ErrDeadlineExceeded, false},
	} {
		d := &conn{reused: true, ctx: t.Context()}
		d.sending.n = 7
		c.change(d)
		r := &http.Request{Method: c.method, Header: http.Header{c.header: {"k"}}}
		if got := d.repeats(r, c.err); got != c.want {
			t.Errorf("%s: the request is sent once more: %v, want %v", c.name, got, c.want)
		}
	}
}
