package accept

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxiedListener accepts connections of balancers that send a header of the PROXY protocol first, version 1 or 2. The
// header names the client. A trusted proxy must send it. The header of another peer is not read, so that clients
// cannot choose their addresses.
type proxiedListener struct {
	*boundedListener
	*Balancers
}

// Balancers are the peers that begin a connection with a header of the PROXY protocol.
type Balancers struct {
	Trusted  func(netip.Addr) bool // whether a peer is one
	Patience time.Duration         // how long the header may take
	Failed   func(error)           // is called for a connection without a valid header
}

// Accept waits for a connection. It does not wait for the header.
func (l proxiedListener) Accept() (net.Conn, error) {
	c, err := l.boundedListener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.Trusted(peerAddr(c.RemoteAddr())) {
		return c, nil
	}
	return &proxiedConn{Conn: c, from: l, until: time.Now().Add(l.Patience), peer: c.RemoteAddr(), reading: true}, nil
}

// proxiedConn is a connection that begins with a header of the PROXY protocol. The header is read when the address of
// the client, or the first byte, is needed.
type proxiedConn struct {
	net.Conn
	from  proxiedListener
	until time.Time // when the header must be there

	once   sync.Once
	peer   net.Addr // the client, once the header is read
	rest   *bufio.Reader
	err    error
	client netip.Addr // which the listener counts; invalid for none

	mu       sync.Mutex
	reading  bool      // whether the header is still to be read
	deadline time.Time // for reads, as it was set from outside
	closed   bool
}

// proxyHeader bounds the header. The rest of the buffer holds what came with it.
const proxyHeader = 4 << 10

var errTooMany = errors.New("the client has as many connections as it may have")

// header reads the header, once.
func (c *proxiedConn) header() {
	c.once.Do(func() {
		if c.applyDeadline() != nil {
			c.err = net.ErrClosed
			return
		}
		r := bufio.NewReaderSize(c.Conn, proxyHeader)
		h, err := proxyproto.Read(r)
		if err == nil {
			err = c.admit(h)
		}
		c.mu.Lock()
		c.reading = false
		c.mu.Unlock()
		if err == nil {
			err = c.applyDeadline()
		}
		if err != nil {
			c.err = fmt.Errorf("the header of the PROXY protocol: %w", err)
			if !errors.Is(err, errTooMany) {
				c.from.Failed(c.err)
			}
			_ = c.Close() // nothing was read
			return
		}
		if r.Buffered() > 0 {
			c.rest = r
		}
	})
}

// admit takes the client from the header, and counts its connection.
func (c *proxiedConn) admit(h *proxyproto.Header) error {
	if h.Command.IsLocal() {
		return nil // the balancer speaks for itself, as in a health check
	}
	client, _, ok := h.TCPAddrs()
	if !ok {
		return errors.New("it names no address of TCP")
	}
	counted, ok := c.from.admit(client)
	if !ok {
		c.from.bounds.Refused.Add(1)
		return errTooMany
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.from.releaseClient(counted)
		return net.ErrClosed
	}
	c.peer, c.client = client, counted
	return nil
}

// RemoteAddr returns the address of the client. It waits for the header.
func (c *proxiedConn) RemoteAddr() net.Addr {
	c.header()
	return c.peer
}

// Read reads what follows the header.
func (c *proxiedConn) Read(p []byte) (int, error) {
	c.header()
	switch {
	case c.err != nil:
		return 0, c.err
	case c.rest == nil:
		return c.Conn.Read(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.rest.Read(p[:min(len(p), c.rest.Buffered())])
	if c.rest.Buffered() == 0 {
		c.rest = nil
	}
	return n, err
}

// SetDeadline sets the deadline of reads and writes.
func (c *proxiedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of reads. The header has a deadline of its own besides.
func (c *proxiedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.applyDeadline()
}

// applyDeadline sets the earlier of both deadlines.
func (c *proxiedConn) applyDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.deadline
	if c.reading && (t.IsZero() || c.until.Before(t)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite ends the answer, so that the client reads it before the connection ends.
func (c *proxiedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Conn.Close()
}

// Close closes the connection, and ends the count of the client's connections.
func (c *proxiedConn) Close() error {
	c.mu.Lock()
	client := c.client
	c.client, c.closed = netip.Addr{}, true
	c.mu.Unlock()
	c.from.releaseClient(client)
	return c.Conn.Close()
}
