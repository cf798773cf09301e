package goredisstore

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// When the server is gone, or a proxy acknowledges for it, all connections of the pool are silent. Go-redis closes only
// the connection of a call that fails, and a guard makes few calls to a store that fails. So the pool could keep
// useless connections for seconds after new ones work. Therefore, all connections are in doubt if a call failed, and
// nothing was read from the server for silence although something was written. Go-redis checks a connection before it
// uses it. That check fails for a connection from which nothing was read since the doubt, so go-redis makes another
// one.
//
// A guard calls a store that fails after more than this time, so its first try makes a connection.
const silence = 250 * time.Millisecond

// errSilent is why go-redis closes a connection.
var errSilent = errors.New("goredisstore: the server did not answer for 250 ms, and a call failed; the connection is closed")

// A server is what its connections have in common. Times count from start; 0 means never.
type server struct {
	start   time.Time
	caching bool         // go-redis reads what its cache needs from the connections themselves
	since   atomic.Int64 // when the first bytes were written after the last ones were read
	failed  atomic.Int64 // when a call failed
	doubted atomic.Int64 // when the connections were in doubt
}

func newServer(c *redis.Client) *server {
	o := c.Options()
	return &server{start: time.Now(), caching: o.ClientSideCache != nil || o.ClientSideCacheConfig != nil}
}

func (s *server) now() int64 { return int64(max(1, time.Since(s.start))) }

// watch returns the connection that go-redis uses.
func (s *server) watch(c net.Conn) net.Conn {
	if s.caching {
		return c
	}
	w := &watched{Conn: c, server: s}
	w.read.Store(s.now())
	return w
}

// watched is a connection that go-redis does not use again while it is silent.
type watched struct {
	net.Conn
	server *server
	read   atomic.Int64 // when the last bytes were read, or the connection was made
}

// Read reads from the connection.
func (c *watched) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	var late net.Error
	switch {
	case n > 0:
		c.read.Store(c.server.now())
		c.server.since.Store(0)
	case errors.As(err, &late) && late.Timeout():
		c.server.failed.Store(c.server.now())
	}
	return n, err
}

// Write writes to the connection.
func (c *watched) Write(b []byte) (int, error) {
	c.server.since.CompareAndSwap(0, c.server.now())
	return c.Conn.Write(b)
}

// SyscallConn returns what go-redis checks before it uses the connection, or errSilent.
func (c *watched) SyscallConn() (syscall.RawConn, error) {
	s, now := c.server, c.server.now()
	if since := s.since.Load(); since != 0 && now-since >= int64(silence) && s.failed.Load() > since {
		s.doubted.Store(now)
	}
	if c.read.Load() < s.doubted.Load() {
		return nil, errSilent
	}
	if own, ok := c.Conn.(syscall.Conn); ok {
		return own.SyscallConn()
	}
	return unchecked{}, nil
}

// unchecked is for connections that go-redis does not check, such as TLS.
type unchecked struct{}

var _ syscall.RawConn = unchecked{}

// Control does nothing.
func (unchecked) Control(func(uintptr)) error { return nil }

// Read does nothing.
func (unchecked) Read(func(uintptr) bool) error { return nil }

// Write does nothing.
func (unchecked) Write(func(uintptr) bool) error { return nil }
