package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// census counts the connections of a transport to its upstreams.
type census struct{ open, most atomic.Int64 }

// countConns makes the transport of some options count its connections.
func countConns(o *TransportOptions) *census {
	c := &census{}
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		n := c.open.Add(1)
		for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
			continue
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			c.open.Add(-1)
			return nil, err
		}
		return &censusConn{TCPConn: conn.(*net.TCPConn), leave: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
	}
	return c
}

type censusConn struct {
	*net.TCPConn
	leave func()
}

func (c *censusConn) Close() error {
	err := c.TCPConn.Close()
	c.leave()
	return err
}

// upload sends a body without a length, which package http carries.
func upload(t *testing.T, target string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, io.NopCloser(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	res, _ := do(t, client(t), r)
	return res.StatusCode
}

// TestBothPathsCountTogether bounds the connections to a service to two. Requests of both kinds share them, and unused
// connections of one kind give way to requests of the other kind.
func TestBothPathsCountTogether(t *testing.T) {
	arrived, leave := make(chan struct{}, 8), make(chan struct{})
	s := service(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/held" {
			arrived <- struct{}{}
			<-leave
		}
	})
	var failures reported
	o := TransportOptions{MaxConnections: 2, Connect: 400 * time.Millisecond}
	conns := countConns(&o)
	f := front(t, s.URL, o, func(o *Options) { o.Failed = failures.add })
	status := func() int { return fetch(t, client(t), http.MethodGet, f.URL, "").status }

	// Each kind takes over the connections that the other has left unused.
	for range 3 {
		if got := upload(t, f.URL); got != http.StatusOK {
			t.Errorf("an upload: %d", got)
		}
		if got := status(); got != http.StatusOK {
			t.Errorf("a request: %d", got)
		}
	}

	held := make(chan int)
	go func() { held <- upload(t, f.URL+"/held") }()
	go func() { held <- fetch(t, client(t), http.MethodGet, f.URL+"/held", "").status }()
	await(t, arrived, "one request")
	await(t, arrived, "the other request")
	if got := upload(t, f.URL); got != http.StatusGatewayTimeout || failures.last() != "connect-timeout" {
		t.Errorf("an upload beyond the bound: %d, %s", got, failures.last())
	}
	if got := status(); got != http.StatusGatewayTimeout || failures.last() != "connect-timeout" {
		t.Errorf("a request beyond the bound: %d, %s", got, failures.last())
	}
	close(leave)
	for range 2 {
		if got := <-held; got != http.StatusOK {
			t.Errorf("a held request: %d", got)
		}
	}
	if most := conns.most.Load(); most > 2 {
		t.Errorf("%d connections", most)
	}
}

// TestWaitsForAConnection lets many requests of both kinds share two connections, in turn.
func TestWaitsForAConnection(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	o := TransportOptions{MaxConnections: 2, Connect: edgetest.Patience}
	conns := countConns(&o)
	f := front(t, s.URL, o, nil)
	failed := make(chan error)
	for kind := range 16 {
		go func() {
			cl := client(t)
			for range 20 {
				switch kind % 4 {
				case 0:
					if got := upload(t, f.URL); got != http.StatusOK {
						failed <- fmt.Errorf("an upload: %d", got)
						return
					}
				default:
					if got := fetch(t, cl, http.MethodGet, f.URL, ""); got.status != http.StatusOK {
						failed <- fmt.Errorf("a request: %+v", got)
						return
					}
				}
			}
			failed <- nil
		}()
	}
	for range 16 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if most := conns.most.Load(); most > 2 {
		t.Errorf("%d connections", most)
	}
}

// TestUpgradedConnectionsDoNotCount keeps an upgraded connection, beyond the bound.
func TestUpgradedConnectionsDoNotCount(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		_, _, _ = c.Read(r.Context())
	})
	f := front(t, s.URL, TransportOptions{MaxConnections: 1, Connect: 200 * time.Millisecond}, nil)
	c, _, err := websocket.Dial(t.Context(), f.URL, &websocket.DialOptions{HTTPClient: client(t)}) //nolint:bodyclose // the connection takes it over
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := fetch(t, client(t), http.MethodGet, f.URL, ""); got.status != http.StatusOK {
			t.Errorf("the upgraded connection counts against the bound: %+v", got)
		}
	}
	if err := c.CloseNow(); err != nil {
		t.Error(err)
	}
}

// TestWaitsEndWithTheirRequests leaves the queue for a connection by a cancel. The next request still gets its turn.
func TestWaitsEndWithTheirRequests(t *testing.T) {
	arrived, leave := make(chan struct{}, 8), make(chan struct{})
	s := service(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		if r.URL.Path == "/held" {
			<-leave
		}
	})
	f, cl := front(t, s.URL, TransportOptions{MaxConnections: 1}, nil), client(t)
	get := func(ctx context.Context, path string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+path, nil)
		if err != nil {
			return err
		}
		res, err := cl.Do(r)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	first := make(chan error)
	go func() { first <- get(t.Context(), "/held") }()
	await(t, arrived, "the first request")
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() { second <- get(ctx, "/") }()
	cancel()
	if err := <-second; err == nil {
		t.Error("a cancelled request got an answer")
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := get(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}
