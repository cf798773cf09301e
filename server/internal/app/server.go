package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// server is one listener and its HTTP server.
type server struct {
	name string
	at   string // the configured address
	ln   net.Listener
	tls  bool
	http *http.Server
	// access describes who gets an answer; empty for everybody at the proxy, and this machine elsewhere.
	access string

	draining atomic.Bool
	served   chan struct{} // closed when no connection is accepted any more
	// handlers counts requests under way. Unlike http.Server it includes upgraded connections.
	handlers sync.WaitGroup
	// conns counts open connections; the channel none is closed when the last one ends.
	mu    sync.Mutex
	conns int
	none  chan struct{}
}

// limits bound the time and space that a client may take.
type limits struct {
	header, read, write, idle time.Duration
	headerBytes               int
}

func newServer(ctx context.Context, name string, ln net.Listener, config *tls.Config, h http.Handler, l limits, errorLog *log.Logger) *server {
	s := &server{name: name, ln: ln, tls: config != nil, served: make(chan struct{})}
	s.http = &http.Server{
		Handler:           s.count(framed(h)),
		TLSConfig:         config,
		ReadHeaderTimeout: l.header,
		ReadTimeout:       l.read,
		WriteTimeout:      l.write,
		IdleTimeout:       l.idle,
		MaxHeaderBytes:    l.headerBytes,
		ConnState:         s.connState,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ErrorLog:          errorLog,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},

		DisableGeneralOptionsHandler: true, // OPTIONS * is a request like others
	}
	return s
}

// multiplex also accepts HTTP/2 without TLS, from clients that begin with it. Connections over TLS agree on it by themselves.
func (s *server) multiplex(l limits) {
	if s.tls {
		return
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s.http.Protocols = &p
	s.http.HTTP2.WriteByteTimeout = l.write // a client that reads nothing does not keep its connection
}

// serve answers until the server drains; the error is nil then.
func (s *server) serve(bounds connectionBounds) error {
	defer close(s.served)
	ln := newBoundedListener(s.ln, bounds)
	var err error
	if s.tls {
		err = s.http.ServeTLS(ln, "", "")
	} else {
		err = s.http.Serve(framedListener{ln})
	}
	if errors.Is(err, http.ErrServerClosed) || s.draining.Load() {
		return nil
	}
	return err
}

// count counts the requests under way. While the server drains, answers make clients close their connection.
func (s *server) count(next http.Handler) http.Handler {
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
func (s *server) connState(_ net.Conn, state http.ConnState) {
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

// refuse accepts no more connections. Connections that were made are served; handshakes that have begun may
// take settle to finish.
func (s *server) refuse(settle time.Duration) {
	s.draining.Store(true)
	if tcp, ok := s.ln.(*net.TCPListener); ok {
		quiet(tcp, settle)
	}
	_ = s.ln.Close() // it is not used again
	<-s.served
}

// linger waits for clients to close their connections, as each answer requests. If the server
// closed a connection first, a request on it could be lost.
func (s *server) linger(ctx context.Context) {
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

// shutdown closes idle connections, and returns when all requests or the context have ended.
func (s *server) shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close cuts off the connections that are left.
func (s *server) close() {
	// The server ends; an error has no consequence.
	_ = s.http.Close()
}
