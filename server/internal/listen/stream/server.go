package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is the connection of a session.
type Conn struct {
	net.Conn
	drainBy atomic.Int64 // when reads end because the server drains, in Unix nanoseconds; 0 for not yet
}

// drainGrace is how long a connection that drains waits for requests that are on their way.
const drainGrace = 50 * time.Millisecond

// SetReadDeadline sets when reads end. While the connection drains, they end soon.
func (c *Conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if by := c.drainBy.Load(); err == nil && by != 0 { // drain may have set it before the deadline above
		return c.Conn.SetReadDeadline(time.Unix(0, by))
	}
	return err
}

// Draining reports whether the server drains, so that a session should end when it has answered what has arrived.
func (c *Conn) Draining() bool { return c.drainBy.Load() != 0 }

// drain ends reads soon. It does not wait.
func (c *Conn) drain() {
	by := time.Now().Add(drainGrace)
	c.drainBy.Store(by.UnixNano())
	_ = c.Conn.SetReadDeadline(by) // without a deadline the connection ends with the server
}

// Options configure a Server.
type Options struct {
	// Run answers the requests of a connection until it should be closed. If it returns true, the client may still be
	// sending: the server then waits for a moment, so that the client can read the last answer. Required.
	Run func(*Conn) (unread bool)
	// TLS is the configuration of connections over TLS. Default: connections are not encrypted.
	TLS *tls.Config
}

// Server serves the connections of one listener. It is safe for concurrent use.
type Server struct {
	o Options

	mu       sync.Mutex
	sessions map[*Conn]bool
	draining bool
	closed   bool
	none     chan struct{} // closed when the last session has ended, while the server waits for that
	listener net.Listener

	handshakeFailed func(error) // nil to report nothing
}

// New returns a server that does not serve yet.
func New(o Options) *Server { return &Server{o: o, sessions: map[*Conn]bool{}} }

// The pauses after an error of the system, such as too many open files.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Serve accepts connections until the listener is closed. The error is nil then. A server that is closed closes the
// listener at once.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.listener = ln
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ln.Close()
	}
	pause := firstPause
	for {
		c, err := ln.Accept()
		if err == nil {
			pause = firstPause
			s.start(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() {
			return err
		}
		<-time.After(pause)
		pause = min(2*pause, lastPause)
	}
}

// OnHandshakeError makes the server report the TLS handshakes that fail. It is called before Serve.
func (s *Server) OnHandshakeError(report func(error)) { s.handshakeFailed = report }

// reportHandshake reports the handshake of a connection that is closed, if it has failed.
func (s *Server) reportHandshake(c net.Conn) {
	secure, ok := c.(*tls.Conn)
	if !ok || s.handshakeFailed == nil || secure.ConnectionState().HandshakeComplete {
		return
	}
	// This returns the error of the earlier handshake. A handshake that has not begun fails, because the connection is
	// closed.
	if err := secure.Handshake(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.handshakeFailed(err)
	}
}

// start answers a connection in a goroutine of its own.
func (s *Server) start(c net.Conn) {
	if s.o.TLS != nil {
		c = tls.Server(c, s.o.TLS)
	}
	x := &Conn{Conn: c}
	s.mu.Lock()
	s.sessions[x] = true
	draining := s.draining
	s.mu.Unlock()
	if draining {
		x.drain()
	}
	go func() {
		if s.o.Run(x) {
			settle(c)
		}
		_ = c.Close() // it ends either way
		s.reportHandshake(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, x)
		if len(s.sessions) == 0 && s.none != nil {
			close(s.none)
			s.none = nil
		}
	}()
}

// The time and the bytes for which the server reads a connection before it closes it. Unread bytes would reset the
// connection, and the client could lose the last answer.
const (
	settleTime  = 250 * time.Millisecond
	settleBytes = 256 << 10
)

func settle(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(settleTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, settleBytes) // the connection ends in any case
}

// Drain does nothing: these protocols cannot announce an end without ending.
func (s *Server) Drain() {}

// Shutdown drains all connections. It returns when they have ended, or when the context has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	none := s.none // of another call
	switch {
	case len(s.sessions) == 0:
		none = make(chan struct{})
		close(none)
	case none == nil:
		none = make(chan struct{})
		s.none = none
	}
	if !s.draining {
		s.draining = true
		for c := range s.sessions {
			c.drain()
		}
	}
	s.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sessions returns how many connections are open.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Close closes the listener, and cuts off the connections that are left.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.closed = true, true
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	for c := range s.sessions {
		_ = c.Close() // it is cut off on purpose
	}
	return err
}
