package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// server is one listener, and the protocol that answers there.
type server struct {
	name   string
	at     string // the configured address
	scheme string // of the URL that is shown, such as https
	secure bool   // over TLS
	ln     net.Listener
	protocol
	// access describes who gets an answer; empty for everybody at the proxy, and this machine elsewhere.
	access string
	// proxied makes a listener of connections that begin with a header of the PROXY protocol; nil for others.
	proxied func(*boundedListener) net.Listener

	draining atomic.Bool
	served   chan struct{} // closed when no connection is accepted any more
}

// protocol answers the connections of one listener.
type protocol interface {
	// Serve answers until the listener is closed, or until Shutdown or Close.
	Serve(ln net.Listener) error
	// Drain announces that the server will end, so that clients leave. It does not wait.
	Drain()
	// Shutdown closes idle connections, and returns when all requests or the context have ended.
	Shutdown(ctx context.Context) error
	// Close cuts off the connections that are left.
	Close() error
}

func newServer(name, at, scheme string, ln net.Listener, p protocol) *server {
	return &server{name: name, at: at, scheme: scheme, ln: ln, protocol: p, served: make(chan struct{})}
}

// serve answers until the server drains; the error is nil then.
func (s *server) serve(bounds connectionBounds) error {
	defer close(s.served)
	bounded := newBoundedListener(s.ln, bounds)
	ln := net.Listener(bounded)
	if s.proxied != nil {
		ln = s.proxied(bounded)
	}
	err := s.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || s.draining.Load() {
		return nil
	}
	return err
}

// refuse accepts no more connections. Connections that were made are served; handshakes that have begun may
// take settle to finish.
func (s *server) refuse(settle time.Duration) {
	s.draining.Store(true)
	s.Drain()
	switch ln := s.ln.(type) {
	case *net.TCPListener:
		quiet(ln, settle)
	case *socket:
		ln.quiet(settle)
	}
	_ = s.ln.Close() // it is not used again
	<-s.served
}
