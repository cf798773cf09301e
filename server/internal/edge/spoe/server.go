package spoe

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// Options configure a Server. All functions must be safe for concurrent use.
type Options struct {
	// Decider decides about requests. Required.
	Decider *gateway.Decider
	// Trusts reports whether an address belongs to a gateway; a peer at a Unix socket has an invalid address. The
	// server closes connections of other peers. Required.
	Trusts func(netip.Addr) bool
	// Context is the context of decisions. Default: one that never ends.
	Context context.Context
	// TLS is the configuration of connections over TLS. Default: connections are not encrypted.
	TLS *tls.Config
	// Idle is how long a connection may be idle. Default: 2 minutes.
	Idle time.Duration
	// Read is how long HAProxy may take to send one frame, and to send its hello. Default: 10 seconds.
	Read time.Duration
	// Write is how long HAProxy may take to read an answer. Default: 10 seconds.
	Write time.Duration
	// MaxDeciding bounds the requests that are decided at once. The server reads no further requests then. Default:
	// 1024.
	MaxDeciding int
}

// Server answers the messages of HAProxy. It is safe for concurrent use.
type Server struct {
	*stream.Server
	o        Options
	deciding chan struct{} // has an element for each request that is being decided
}

// New returns a server.
func New(o Options) (*Server, error) {
	if o.Decider == nil || o.Trusts == nil {
		return nil, errors.New("spoe: Decider and Trusts are required")
	}
	o.complete()
	s := &Server{o: o, deciding: make(chan struct{}, o.MaxDeciding)}
	s.Server = stream.New(stream.Options{TLS: o.TLS, Run: func(c *stream.Conn) bool { return s.open(c).Run() }})
	return s, nil
}

// complete fills in the defaults.
func (o *Options) complete() {
	if o.Context == nil {
		o.Context = context.Background()
	}
	for _, d := range []struct {
		field     *time.Duration
		byDefault time.Duration
	}{{&o.Idle, 2 * time.Minute}, {&o.Read, 10 * time.Second}, {&o.Write, 10 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.byDefault
		}
	}
	if o.MaxDeciding <= 0 {
		o.MaxDeciding = 1024
	}
}
