package web

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Protocol answers HTTP at a listener. It is an accept.Protocol.
type Protocol struct {
	http *http.Server
	// Linger is how long Shutdown waits for clients to close their connections.
	Linger time.Duration

	draining atomic.Bool
	// handlers counts requests under way. Unlike http.Server it includes upgraded connections.
	handlers sync.WaitGroup
	// conns counts open connections; the channel none is closed when the last one ends.
	mu    sync.Mutex
	conns int
	none  chan struct{}
}

// Bounds are the time and space that a client may take; 0 for no bound.
type Bounds struct {
	Header, Read, Write, Idle time.Duration
	HeaderBytes               int
}

// New returns the protocol of a handler. Requests have contexts of ctx. The argument config is nil for plain HTTP.
func New(ctx context.Context, config *tls.Config, h http.Handler, b Bounds, errorLog *log.Logger) *Protocol {
	s := &Protocol{}
	s.http = &http.Server{
		Handler:           s.count(framed(h)),
		TLSConfig:         config,
		ReadHeaderTimeout: b.Header,
		ReadTimeout:       b.Read,
		WriteTimeout:      b.Write,
		IdleTimeout:       b.Idle,
		MaxHeaderBytes:    b.HeaderBytes,
		ConnState:         s.connState,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ErrorLog:          errorLog,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},

		DisableGeneralOptionsHandler: true, // OPTIONS * is a request like others
	}
	return s
}

// OnHandshakeError makes the error log report the handshakes that fail, if it can.
func (s *Protocol) OnHandshakeError(report func(error)) {
	if l, ok := s.http.ErrorLog.Writer().(interface{ OnHandshakeError(report func(error)) }); ok {
		l.OnHandshakeError(report)
	}
}

// Multiplex also accepts HTTP/2 without TLS, from clients that begin with it. Connections over TLS agree on it by
// themselves.
func (s *Protocol) Multiplex() {
	if s.http.TLSConfig != nil {
		return
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s.http.Protocols = &p
	s.http.HTTP2.WriteByteTimeout = s.http.WriteTimeout // a client that reads nothing does not keep its connection
}

// Serve answers until the listener is closed.
func (s *Protocol) Serve(ln net.Listener) error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(ln, "", "")
	}
	return s.http.Serve(framedListener{ln})
}

// count counts the requests under way. While the server drains, answers make clients close their connection.
func (s *Protocol) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		if s.draining.Load() && r.ProtoMajor == 1 && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// connState counts connections.
func (s *Protocol) connState(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns++
	case http.StateClosed, http.StateHijacked:
		s.conns--
		if s.conns == 0 && s.none != nil {
			close(s.none)
			s.none = nil
		}
	}
}

// Drain makes answers close their connections.
func (s *Protocol) Drain() { s.draining.Store(true) }

// Shutdown lets clients close their connections, closes idle connections, and returns when all requests or the
// context have ended.
func (s *Protocol) Shutdown(ctx context.Context) error {
	s.linger(ctx)
	if err := s.http.Shutdown(ctx); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		s.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// linger waits for clients to close their connections, as each answer requests. If the server
// closed a connection first, a request on it could be lost.
func (s *Protocol) linger(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, s.Linger)
	defer stop()
	s.mu.Lock()
	none := make(chan struct{})
	if s.conns == 0 {
		close(none)
	} else {
		s.none = none
	}
	s.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// Wait returns when no request is under way.
func (s *Protocol) Wait() { s.handlers.Wait() }

// Close cuts off the connections that are left.
func (s *Protocol) Close() error { return s.http.Close() }
