package accept

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Server is one listener, and the protocol that answers there. Run serves it once.
type Server struct {
	Protocol
	// Listener accepts the connections. Bind makes one.
	Listener net.Listener
	// Balancers are set if trusted peers begin connections with a header of the PROXY protocol; nil if nobody does.
	Balancers *Balancers

	draining atomic.Bool
	served   chan struct{} // closed when no connection is accepted any more
}

// Protocol answers the connections of one listener.
type Protocol interface {
	// Serve answers until the listener is closed, or until Shutdown or Close.
	Serve(ln net.Listener) error
	// Drain announces that the server will end, so that clients leave. It does not wait.
	Drain()
	// Shutdown closes idle connections, and returns when all requests or the context have ended.
	Shutdown(ctx context.Context) error
	// Close cuts off the connections that are left.
	Close() error
}

// NewServer returns the server of a listener. It needs a Protocol before it runs.
func NewServer(ln net.Listener, b *Balancers) *Server {
	return &Server{Listener: ln, Balancers: b, served: make(chan struct{})}
}

// Run answers until the server drains; the error is nil then.
func (s *Server) Run(bounds Bounds) error {
	defer close(s.served)
	bounded := newBoundedListener(s.Listener, bounds)
	ln := net.Listener(bounded)
	if s.Balancers != nil {
		ln = proxiedListener{bounded, s.Balancers}
	}
	err := s.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || s.draining.Load() {
		return nil
	}
	return err
}

// Refuse accepts no more connections. Connections that were made are served; handshakes that have begun may
// take settle to finish.
func (s *Server) Refuse(settle time.Duration) {
	s.draining.Store(true)
	s.Drain()
	switch ln := s.Listener.(type) {
	case *net.TCPListener:
		quiet(ln, settle)
	case *socket:
		ln.quiet(settle)
	}
	_ = s.Listener.Close() // it is not used again
	<-s.served
}

// Served is closed when Run accepts no connection any more.
func (s *Server) Served() <-chan struct{} { return s.served }

// IsSocket reports whether the listener is at a Unix socket.
func (s *Server) IsSocket() bool {
	_, ok := s.Listener.(*socket)
	return ok
}
