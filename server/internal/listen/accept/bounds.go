package accept

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Bounds are the bounds of a listener's connections.
type Bounds struct {
	Most      int // in all; further connections wait in the kernel's queue. 0 for no bound
	PerClient int // of each client; further connections are closed. 0 for no bound
	// Exempt reports whether an address may have more connections, because it has them for others.
	Exempt func(netip.Addr) bool
	// Refused counts the connections that were closed.
	Refused *atomic.Uint64
}

// clientBits are the leading bits of an IPv6 address that identify a client here. Unlike ipv6_prefix they cannot change
// while connections are counted.
const clientBits = 64

// boundedListener accepts a bounded number of connections at once, in all and of each client.
type boundedListener struct {
	net.Listener
	bounds Bounds
	free   chan struct{} // nil for no bound
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	clients map[netip.Addr]int
}

func newBoundedListener(l net.Listener, b Bounds) *boundedListener {
	bounded := &boundedListener{Listener: l, bounds: b, closed: make(chan struct{}), clients: make(map[netip.Addr]int)}
	if b.Most > 0 {
		bounded.free = make(chan struct{}, b.Most)
	}
	return bounded
}

// Accept waits until a connection may be open, and then for a connection of a client that may have one more.
func (l *boundedListener) Accept() (net.Conn, error) {
	if l.free != nil {
		select {
		case l.free <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			l.release(netip.Addr{})
			return nil, err
		}
		client, ok := l.admit(c.RemoteAddr())
		if !ok {
			l.bounds.Refused.Add(1)
			refuseConn(c)
			continue
		}
		release := sync.OnceFunc(func() { l.release(client) })
		switch c := c.(type) {
		case *net.TCPConn:
			return &boundedTCPConn{TCPConn: c, release: release}, nil
		case *net.UnixConn:
			return &boundedUnixConn{UnixConn: c, release: release}, nil
		}
		return &boundedConn{Conn: c, release: release}, nil
	}
}

// admit counts a connection of a client, unless the client has as many as it may have. The result is invalid for a
// client without a bound.
func (l *boundedListener) admit(from net.Addr) (netip.Addr, bool) {
	addr := peerAddr(from)
	if !addr.IsValid() || l.bounds.PerClient <= 0 || l.bounds.Exempt(addr) {
		return netip.Addr{}, true
	}
	if addr.Is6() {
		network, err := addr.Prefix(clientBits)
		if err != nil {
			return netip.Addr{}, true
		}
		addr = network.Addr()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[addr] >= l.bounds.PerClient {
		return netip.Addr{}, false
	}
	l.clients[addr]++
	return addr, true
}

// peerAddr returns the address of a peer; invalid for a peer at a Unix socket.
func peerAddr(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// release ends the count of a connection.
func (l *boundedListener) release(client netip.Addr) {
	if l.free != nil {
		<-l.free
	}
	l.releaseClient(client)
}

// releaseClient ends the count of a client's connection.
func (l *boundedListener) releaseClient(client netip.Addr) {
	if !client.IsValid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[client]--; l.clients[client] <= 0 {
		delete(l.clients, client)
	}
}

// refuseConn resets a connection, so that it leaves nothing behind in the kernel.
func refuseConn(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the connection still ends
	}
	_ = c.Close() // nothing was written
}

// Close closes the listener.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn ends its count when it is closed.
type boundedConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// boundedTCPConn is a boundedConn with all methods of a TCP connection, which package net/http uses: CloseWrite lets
// a client read the last answer.
type boundedTCPConn struct {
	*net.TCPConn
	release func()
}

// Close closes the connection.
func (c *boundedTCPConn) Close() error {
	defer c.release()
	return c.TCPConn.Close()
}

// boundedUnixConn is a boundedConn with all methods of a connection at a Unix socket.
type boundedUnixConn struct {
	*net.UnixConn
	release func()
}

// unixPeer is the address of every peer at a Unix socket. A client can bind its end to a name that reads as another
// address, such as 10.0.0.1:80, so the name is not used.
var unixPeer = &net.UnixAddr{Name: "@", Net: "unix"}

// RemoteAddr returns the same address for all peers.
func (c *boundedUnixConn) RemoteAddr() net.Addr { return unixPeer }

// Close closes the connection.
func (c *boundedUnixConn) Close() error {
	defer c.release()
	return c.UnixConn.Close()
}
