package accept

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/access"
)

// Server is one listener that is open, and the protocol that answers there.
type Server struct {
	NamedListener
	Protocol Protocol
	listener net.Listener
	passed   bool // the listener is of systemd, and stays open when this process closes it
	// balancers are set if trusted peers begin connections with a header of the PROXY protocol; nil if nobody does.
	balancers *Balancers
	endpoint  *Endpoint
	secure    bool   // over TLS
	callers   string // that get an answer; empty for everybody at the proxy, and this machine elsewhere

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
	// Close closes the connections that are left.
	Close() error
}

// Endpoint is how a listener of the configuration answers.
type Endpoint struct {
	// Scheme is the scheme of its URL without TLS.
	Scheme string
	// ALPN are the protocols that clients may choose with TLS; nil for any.
	ALPN []string
	// Open makes the protocol. The configuration is nil without TLS.
	Open func(*access.Rules, *tls.Config) (Protocol, error)
	// Note describes what is behind the listener, in the lines that a server prints when it starts. Optional.
	Note string
	// Last means that the listener drains after the others, so that it reports meanwhile that the server drains.
	Last bool
}

// serve answers until the server drains; the error is nil then.
func (s *Server) serve(bounds Bounds) error {
	defer close(s.served)
	bounded := newBoundedListener(s.listener, bounds)
	ln := net.Listener(bounded)
	if s.balancers != nil {
		ln = proxiedListener{bounded, s.balancers}
	}
	err := s.Protocol.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) || s.draining.Load() {
		return nil
	}
	return err
}

// drain accepts no more connections, and returns when all requests or the context have ended. Connections that were
// made are served; handshakes that have begun may take settle to finish.
func (s *Server) drain(ctx context.Context, settle time.Duration) error {
	s.draining.Store(true)
	s.Protocol.Drain()
	switch ln := s.listener.(type) {
	case *net.TCPListener:
		if s.passed {
			break // connections wait for the next process
		}
		if s.ReusePort {
			yieldPort(ln)
		}
		quiet(ln, settle)
	case *socket:
		ln.quiet(settle)
	}
	_ = s.listener.Close() // it is not used again
	<-s.served
	return s.Protocol.Shutdown(ctx)
}

// Served is closed when no connection is accepted any more.
func (s *Server) Served() <-chan struct{} { return s.served }

// isSocket reports whether the listener is at a Unix socket.
func (s *Server) isSocket() bool {
	_, ok := s.listener.Addr().(*net.UnixAddr)
	return ok
}

// URL returns the address of the listener as it is configured, with the port that it got.
func (s *Server) URL() string {
	if s.isSocket() {
		return s.Address
	}
	return s.scheme() + "://" + shown(s.listener.Addr(), s.Address)
}

// LocalURL returns where programs on this machine reach the listener.
func (s *Server) LocalURL() string {
	if everywhere(s.listener.Addr()) {
		return s.scheme() + "://" + shown(s.listener.Addr(), "localhost:0")
	}
	return s.URL()
}

func (s *Server) scheme() string {
	if s.secure {
		return s.endpoint.Scheme + "s"
	}
	return s.endpoint.Scheme
}

// Note returns the note of the endpoint.
func (s *Server) Note() string { return s.endpoint.Note }

// Remark returns what there is to say about the address of the listener besides its URL, with further notes.
func (s *Server) Remark(notes ...string) string {
	var all []string
	if everywhere(s.listener.Addr()) {
		all = append(all, "every address of this machine")
	}
	if s.isSocket() && s.secure {
		all = append(all, "over TLS") // URL has no scheme
	}
	for _, text := range append([]string{s.callers}, notes...) {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// everywhere reports whether a listener is at every address of this machine.
func everywhere(addr net.Addr) bool {
	at, ok := addr.(*net.TCPAddr)
	return ok && at.IP.IsUnspecified()
}

// shown returns the address of a listener. Where the system has [::] for 0.0.0.0, it is the configured address.
func shown(addr net.Addr, configured string) string {
	host, _, err := net.SplitHostPort(configured)
	if at, ok := addr.(*net.TCPAddr); ok && everywhere(addr) && err == nil && host != "" {
		return net.JoinHostPort(host, strconv.Itoa(at.Port))
	}
	return addr.String()
}
