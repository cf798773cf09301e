package forwardauth

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// ServerOptions configure a Server.
type ServerOptions struct {
	// Handler answers requests. It must keep neither the request nor the writer. Required.
	Handler http.Handler
	// Context is the context of requests. Default: one that never ends.
	Context context.Context
	// Idle is how long a connection may be idle. Default: 2 minutes.
	Idle time.Duration
	// Head is how long a gateway may take to send the head of a request. Default: 10 seconds.
	Head time.Duration
	// Write is how long a gateway may take to read an answer. Default: 1 minute.
	Write time.Duration
	// Linger is how long gateways may use their connections when the server drains. Default: not at all.
	Linger time.Duration
	// HeadBytes bounds the head of a request. Default: 64 KiB.
	HeadBytes int
	// Panicked gets what a handler panicked with. Optional.
	Panicked func(any)
}

// Server serves a Handler over HTTP/1, without TLS and without bodies. A call takes two thirds of the processor time
// that it takes on package net/http, because a request starts no goroutine and no timer. See docs/adr/0043.
type Server struct {
	*stream.Server
	o ServerOptions
}

// NewServer returns a server that does not serve yet.
func NewServer(o ServerOptions) *Server {
	if o.Context == nil {
		o.Context = context.Background()
	}
	for _, x := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&o.Idle, 2 * time.Minute}, {&o.Head, 10 * time.Second}, {&o.Write, time.Minute}} {
		if *x.value <= 0 {
			*x.value = x.usual
		}
	}
	if o.HeadBytes <= 0 {
		o.HeadBytes = 64 << 10
	}
	if o.Panicked == nil {
		o.Panicked = func(any) {}
	}
	s := &Server{o: o}
	s.Server = stream.New(stream.Options{Open: func(c net.Conn) stream.Session { return newConn(c, &s.o) }})
	return s
}
