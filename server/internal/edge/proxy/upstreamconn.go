package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"syscall"
)

// upstreamConn is a connection to an upstream. Before a read would block, it sends what is pending for the client, so
// that small answers leave in one write, and streams at once.
type upstreamConn struct {
	net.Conn
	raw syscall.RawConn // nil if the connection has no descriptor
	// leave is called when the connection ends, or when it is no longer counted; nil for nothing.
	leave func()

	// reading is the read under way. Only one goroutine reads at a time.
	reading struct {
		to  []byte
		n   int
		err error
	}
	try  func(fd uintptr) bool // upstreamConn.attempt, made once
	lost bool                  // a read ended because the client could not get what was pending

	mu      sync.Mutex
	serving *answer // whose pending bytes leave before a read would block; nil for none
	// uncertain says that bytes of the service may be left that belong to no answer. It ends when a read would block, or
	// with the connection.
	uncertain bool
	certain   sync.Cond
	closed    bool
}

// newUpstreamConn returns a connection over c.
func newUpstreamConn(c net.Conn) *upstreamConn {
	u := &upstreamConn{Conn: c}
	u.certain.L = &u.mu
	if s, ok := c.(syscall.Conn); ok && canReadRaw {
		if raw, err := s.SyscallConn(); err == nil {
			u.raw = raw
			u.try = u.attempt
		}
	}
	return u
}

// serve makes later reads send what is pending in an answer before they would block. The transport may read in another
// goroutine, but not while the answer is written.
func (c *upstreamConn) serve(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = a
}

// desert ends what serve began. After it has returned, no read touches the answer. The connection may serve another
// answer already.
func (c *upstreamConn) desert(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving == a {
		c.serving = nil
	}
}

// release ends what serve began, before another request gets the connection.
func (c *upstreamConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = nil
}

// rest releases a connection that package http keeps and reads.
func (c *upstreamConn) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.uncertain = nil, !c.closed
}

// awaitCertainty waits until the connection is closed, or nothing is left of what the service has sent. Package http takes
// bytes beyond an answer for the answer to the next request if that request comes soon enough. If none has come, it
// closes the connection.
func (c *upstreamConn) awaitCertainty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.uncertain {
		c.certain.Wait()
	}
}

// settle ends the uncertainty. The caller holds the mutex.
func (c *upstreamConn) settle() {
	if c.uncertain {
		c.uncertain = false
		c.certain.Broadcast()
	}
}

// flush sends what is pending in the answer that the connection serves. The caller has nothing to read.
func (c *upstreamConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if c.serving == nil {
		return nil
	}
	return c.serving.flushPending()
}

// Read reads from the connection.
func (c *upstreamConn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		if err := c.flush(); err != nil {
			return 0, err
		}
		return c.Conn.Read(p)
	}
	c.reading.to = p
	err := c.raw.Read(c.try)
	c.reading.to = nil
	if err != nil {
		return 0, err
	}
	return c.reading.n, c.reading.err
}

// Close closes the connection.
func (c *upstreamConn) Close() error {
	err := c.Conn.Close()
	c.uncount()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.settle()
	return err
}

// uncount makes the connection not count as one to the upstream.
func (c *upstreamConn) uncount() {
	if c.leave != nil {
		c.leave()
	}
}

// CloseWrite ends what is sent.
func (c *upstreamConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// ReadFrom sends what a reader has, by the kernel if it can.
func (c *upstreamConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(c.Conn, r)
}

// dialing returns a dialer that makes connections of this package.
func dialing(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newUpstreamConn(c), nil
	}
}

// underlying returns the connection below a connection of package http, nil if there is none of this package.
func underlying(c net.Conn) *upstreamConn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	u, _ := c.(*upstreamConn)
	return u
}
