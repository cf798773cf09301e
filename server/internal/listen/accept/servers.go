package accept

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/secret"
)

// Options configure Servers. All fields but Passed are required.
type Options struct {
	// MaxConnections bounds the connections of each listener, and PerClient the connections of one client there; 0 for
	// no bound.
	MaxConnections, PerClient int
	// Trusted reports whether an address belongs to a trusted proxy, which connects for many clients; a peer at a Unix
	// socket has an invalid address.
	Trusted func(netip.Addr) bool
	// HeaderTimeout is how long the header of the PROXY protocol may take.
	HeaderTimeout time.Duration
	// Callers make the rules of access.
	Callers *access.Callers
	// Passed are the sockets that another program has opened for listeners, by their names.
	Passed map[string]net.Listener
	// Files read certificates.
	Files   *secret.Files
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
}

// Servers are the listeners of a program. Make them with Open, and Start them once. After Drain, or without Start, end
// them with Close.
type Servers struct {
	o         Options
	all       []*Server
	started   bool
	headerLog *sampled.Log

	refused    atomic.Uint64 // connections beyond what a client may have
	headerless atomic.Uint64 // connections without the header of the PROXY protocol
}

// Open opens the listeners of the configuration that are on. Each has an endpoint by its name. After an error, Close
// closes the listeners that are open.
func Open(o Options, listeners []NamedListener, endpoints map[string]Endpoint) (*Servers, error) {
	s := &Servers{o: o, headerLog: sampled.New(o.Logger)}
	if err := checkPassed(o.Passed, listeners); err != nil {
		return s, err
	}
	for i := range listeners {
		p := &listeners[i]
		e, ok := endpoints[p.Name]
		if !ok {
			return s, fmt.Errorf("the %s listener has no endpoint", p.Name)
		}
		if err := s.open(p, &e); err != nil {
			return s, err
		}
	}
	if len(s.all) == 0 {
		return s, errors.New("all listeners are off; leave one on")
	}
	o.Metrics.Counter("sluice_refused_connections_total", "Connections that were closed because their clients had as many as a client may have.",
		func() float64 { return float64(s.refused.Load()) })
	o.Metrics.Counter("sluice_proxy_protocol_failures_total", "Connections of trusted proxies that did not begin with a valid header of the PROXY protocol.",
		func() float64 { return float64(s.headerless.Load()) })
	return s, nil
}

// open opens a listener, unless it is off.
func (s *Servers) open(p *NamedListener, e *Endpoint) error {
	config, err := s.openTLS(p, e.ALPN)
	if err != nil || p.Off() {
		return err
	}
	ln, passed := s.o.Passed[p.Name]
	if passed {
		err = p.checkPassed(ln.Addr())
	} else {
		ln, err = p.bind()
	}
	if err != nil {
		return err
	}
	x := &Server{NamedListener: *p, listener: ln, passed: passed, endpoint: e, secure: config != nil, served: make(chan struct{})}
	s.all = append(s.all, x)
	if p.ProxyProtocol {
		x.balancers = &Balancers{Trusted: s.o.Trusted, Patience: s.o.HeaderTimeout, Failed: s.headerFailed}
	}
	rules := s.o.Callers.Rules(p.Name, p.Audience, p.TLS.RequiresClient())
	if p.Audience == access.Proxies {
		x.callers = "for trusted_proxies"
	}
	if rules != nil {
		if err := rules.CheckAddress(ln.Addr(), shown(ln.Addr(), p.Address)); err != nil {
			return err
		}
		x.callers = rules.Describe(ln.Addr())
	}
	if x.Protocol, err = e.Open(rules, config); err != nil {
		return fmt.Errorf("the %s listener: %w", p.Name, err)
	}
	if reporting, ok := x.Protocol.(handshaking); ok && config != nil {
		reporting.OnHandshakeError(s.handshakeErrors(p.Name))
	}
	return nil
}

// headerFailed counts and logs a connection of a balancer without a valid header.
func (s *Servers) headerFailed(err error) {
	s.headerless.Add(1)
	s.headerLog.Warn("a trusted proxy did not begin a connection with a valid header of the PROXY protocol", "error", err)
}

// All returns the servers of the listeners that are on.
func (s *Servers) All() []*Server { return s.all }

// Start answers at all listeners. The channel has the error of a listener that fails. The function wait returns when no
// connection is accepted any more.
func (s *Servers) Start() (failed <-chan error, wait func()) {
	s.started = true
	errs := make(chan error, len(s.all))
	bounds := Bounds{Most: s.o.MaxConnections, PerClient: s.o.PerClient, Exempt: s.o.Trusted, Refused: &s.refused}
	var running sync.WaitGroup
	for _, x := range s.all {
		running.Go(func() {
			if err := x.serve(bounds); err != nil {
				errs <- fmt.Errorf("the %s listener: %w", x.Name, err)
			}
		})
	}
	return errs, running.Wait
}

// Drain accepts no more connections, and returns when all requests or the context have ended. Connections that were
// made are served; handshakes that have begun may take settle to finish. Endpoints that drain last stay open.
func (s *Servers) Drain(ctx context.Context, settle time.Duration) error {
	return s.each(func(x *Server) error {
		if x.endpoint.Last {
			return nil
		}
		return x.drain(ctx, settle)
	})
}

// Close closes all listeners, and the connections that are left. The requests at endpoints that drain last may end before.
func (s *Servers) Close() {
	_ = s.each(func(x *Server) error { // the servers end; an error has no consequence
		if !s.started {
			return x.listener.Close()
		}
		if x.endpoint.Last {
			// Probes are short; do not wait for a probe that hangs.
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if x.drain(short, time.Millisecond) == nil {
				return nil
			}
		}
		return x.Protocol.Close()
	})
}

// each calls a function for all servers at once.
func (s *Servers) each(do func(*Server) error) error {
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, x := range s.all {
		all.Go(func() { errs[i] = do(x) })
	}
	all.Wait()
	return errors.Join(errs...)
}
