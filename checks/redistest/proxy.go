package redistest

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Proxy is between clients and a server, and makes faults on the way. It
// begins by passing everything on. Each of Pass, Delay, Hold, Cut, Reset and Refuse
// ends what the one before began; they fail only when the proxy is closed, or its
// port is lost. Its methods are safe for concurrent use.
type Proxy struct {
	addr, target string
	running      sync.WaitGroup

	accepted, unreachable, cuts, toServer, fromServer atomic.Int64

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	links    map[*link]struct{}
	mode     mode
	changed  chan struct{} // closed when the mode changes
	closed   bool
}

// A mode is what happens on the way.
type mode struct {
	hold, reset, refuse, cut bool

	delay  time.Duration
	after  string // of cut: what arms it, in lower case
	length int    // of cut: bytes that pass then
	number int64  // one more with every change
}

// ProxyStats counts what a proxy saw since it started.
type ProxyStats struct {
	Accepted    int64 // connections of clients, also those reset at once
	Unreachable int64 // the accepted connections whose server could not be reached
	Open        int   // connections now
	Cuts        int64 // replies cut
	ToServer    int64 // bytes passed on to the server
	FromServer  int64 // bytes passed on to clients
}

// StartProxy runs a proxy to a server's address until the test ends.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := NewProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// NewProxy runs a proxy to a server's address until Close. In tests, use StartProxy.
func NewProxy(target string) (*Proxy, error) {
	l, err := listenFree()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		addr:     l.Addr().String(),
		target:   target,
		listener: l,
		links:    make(map[*link]struct{}),
		changed:  make(chan struct{}),
	}
	p.running.Go(func() { p.accept(l) })
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.addr }

// Pass passes everything on without delay, and first what was held or delayed.
func (p *Proxy) Pass() error { return p.set(mode{}) }

// Delay delivers replies that much later than the server sent them, as many at a
// time as come. Requests are not delayed.
func (p *Proxy) Delay(d time.Duration) error { return p.set(mode{delay: d}) }

// Hold is a black hole: no byte arrives on either side, and no connection ends. As
// in a network that loses packets, what was sent meanwhile arrives after Pass. New
// connections are made, but reach nobody.
func (p *Proxy) Hold() error { return p.set(mode{hold: true}) }

// Cut lets requests reach the server and cuts the replies: once a request that
// holds the text (in any case; "" is in all) has passed on a connection, n more
// bytes of replies do, and the connection ends there.
func (p *Proxy) Cut(request string, n int) error {
	return p.set(mode{cut: true, after: strings.ToLower(request), length: n})
}

// Reset resets (RST) the open connections, and each new one as soon as it is made.
func (p *Proxy) Reset() error { return p.set(mode{reset: true}) }

// Refuse resets the open connections, and refuses new ones.
func (p *Proxy) Refuse() error { return p.set(mode{refuse: true}) }

// Drop resets the open connections once, and changes nothing else.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

// Strand makes the open connections half open: no byte arrives on either side any more, and they do not end. New
// connections work, as after a firewall has forgotten the ones before.
func (p *Proxy) Strand() error {
	p.mu.Lock()
	for k := range p.links {
		k.stranded.Store(true)
	}
	p.mu.Unlock()
	return p.set(mode{})
}

func (p *Proxy) drop() {
	for k := range p.links {
		k.reset()
	}
}

// Stats returns what the proxy counted.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	open := len(p.links)
	p.mu.Unlock()
	return ProxyStats{
		Accepted:    p.accepted.Load(),
		Unreachable: p.unreachable.Load(),
		Open:        open,
		Cuts:        p.cuts.Load(),
		ToServer:    p.toServer.Load(),
		FromServer:  p.fromServer.Load(),
	}
}

// Close ends the proxy and its connections, and returns when all of it has ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.deafen()
	p.drop()
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) set(m mode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("redistest: the proxy is closed")
	}
	m.number = p.mode.number + 1
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
	if m.refuse {
		p.deafen()
	}
	if m.refuse || m.reset {
		p.drop()
	}
	if m.refuse || p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("redistest: the proxy cannot listen again: %w", err)
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

// deafen stops listening.
func (p *Proxy) deafen() {
	if p.listener != nil {
		_ = p.listener.Close() // nothing is lost with it
		p.listener = nil
	}
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		p.accepted.Add(1)
		k := &link{p: p, client: c.(*net.TCPConn), ended: make(chan struct{})}
		p.mu.Lock()
		p.links[k] = struct{}{}
		if p.closed || p.mode.reset || p.mode.refuse {
			k.reset()
		}
		p.mu.Unlock()
		p.running.Go(k.run)
	}
}

// now returns the mode, and a channel that is closed when it changes.
func (p *Proxy) now() (mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}
