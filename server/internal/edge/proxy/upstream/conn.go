// Package upstream has the connections to upstreams, on both paths of the proxy. Before a read would block, a
// connection sends what is pending for the client. So small answers leave in one write, and streams at once.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// MaxHead bounds the head of an answer, in bytes.
const MaxHead = 256 << 10

// ErrConnectTimeout ends a request for which no connection was free or made in time.
var ErrConnectTimeout = errors.New("proxy: no connection to the upstream in time")

// Pending is what a client has not been sent yet.
type Pending interface{ FlushPending() error }

// Conn is a connection to an upstream.
type Conn struct {
	net.Conn
	// Raw has the descriptor of the connection; nil if it has none.
	Raw syscall.RawConn
	// Lost says that a read ended because the client could not get what was pending.
	Lost bool

	// reading is the read under way. Only one goroutine reads at a time.
	reading struct {
		to  []byte
		n   int
		err error
	}
	try func(fd uintptr) bool // Conn.attempt, made once
	// uncounted is called when the connection no longer counts; nil for nothing.
	uncounted func()

	mu      sync.Mutex
	serving Pending // what leaves before a read would block; nil for none
	// uncertain says that bytes of the service may be left that belong to no answer. It ends when a read would block, or
	// with the connection.
	uncertain bool
	certain   sync.Cond
	closed    bool
}

// New returns a connection over c. It calls uncounted once, when the connection closes or Uncount is called; nil for
// nothing.
func New(c net.Conn, uncounted func()) *Conn {
	u := &Conn{Conn: c}
	if uncounted != nil {
		u.uncounted = sync.OnceFunc(uncounted)
	}
	u.certain.L = &u.mu
	if s, ok := c.(syscall.Conn); ok && CanReadRaw {
		if raw, err := s.SyscallConn(); err == nil {
			u.Raw = raw
			u.try = u.attempt
		}
	}
	return u
}

// Of returns the connection below a connection of package http, nil if there is none of this package.
func Of(c net.Conn) *Conn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	u, _ := c.(*Conn)
	return u
}

// A Dial makes a connection, as net.Dialer does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Conns returns a dialer whose connections are of this package.
func (dial Dial) Conns(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return New(c, nil), nil
}

// Serve makes later reads send what is pending before they would block. The transport may read in another
// goroutine, but not while the answer is written.
func (c *Conn) Serve(p Pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving = p
}

// Release ends what Serve began, unless the connection serves another answer already. Nil ends it for any answer. After
// Release has returned, no read touches p.
func (c *Conn) Release(p Pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p == nil || c.serving == p {
		c.serving = nil
	}
}

// Rest reports that package http keeps the connection, and reads it.
func (c *Conn) Rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.uncertain = nil, !c.closed
}

// AwaitCertainty waits until the connection is closed, or nothing is left of what the service has sent. Package http takes
// bytes beyond an answer for the answer to the next request if that request comes soon enough. If none has come, it
// closes the connection.
func (c *Conn) AwaitCertainty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.uncertain {
		c.certain.Wait()
	}
}

// settle ends the uncertainty. The caller holds the mutex.
func (c *Conn) settle() {
	if c.uncertain {
		c.uncertain = false
		c.certain.Broadcast()
	}
}

// flush sends what is pending. The caller has nothing to read.
func (c *Conn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if c.serving == nil {
		return nil
	}
	return c.serving.FlushPending()
}

// Read reads from the connection.
func (c *Conn) Read(p []byte) (int, error) {
	if c.Raw == nil || len(p) == 0 {
		if err := c.flush(); err != nil {
			return 0, err
		}
		return c.Conn.Read(p)
	}
	c.reading.to = p
	err := c.Raw.Read(c.try)
	c.reading.to = nil
	if err != nil {
		return 0, err
	}
	return c.reading.n, c.reading.err
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.Uncount()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.settle()
	return err
}

// Uncount makes the connection not count as one to the upstream.
func (c *Conn) Uncount() {
	if c.uncounted != nil {
		c.uncounted()
	}
}

// CloseWrite ends what is sent.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// ReadFrom sends what a reader has, by the kernel if it can.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(c.Conn, r)
}
