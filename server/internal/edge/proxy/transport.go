package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/direct"
	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

// TransportOptions configure a Transport.
type TransportOptions struct {
	// Connect is how long a request may wait until a connection becomes free, or until a new
	// connection is made, including TLS. Default: 5 s.
	Connect time.Duration
	// Answer is how long the upstream may take to begin its answer after it has
	// the whole request. Zero: as long as the client waits. How long an answer lasts
	// is not bounded.
	Answer time.Duration
	// Idle is how long an unused connection is kept. Default: 90 s.
	Idle time.Duration
	// MaxConnections is how many connections there may be at once; further requests wait for
	// a connection, for Connect at most. Zero: no bound.
	MaxConnections int
	// MaxIdle is how many unused connections are kept. Default: 64.
	MaxIdle int
	// TLS is used for an https upstream. Default: the system's authorities, TLS 1.2 or later.
	TLS *tls.Config
	// Dial makes connections. Default: the dialer of package net.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// patience is how long the upstream may take to say that it wants the body of a request with Expect: 100-continue. Services
// that do not know the header wait for the body (RFC 9110, 10.1.1).
const patience = time.Second

// Transport carries requests to an upstream. Plain requests take the direct path, if there is one. Package http carries
// the others.
type Transport struct {
	connect time.Duration
	direct  *direct.Client                 // nil if there is no direct path
	plain   *http.Transport                // shares the bound on connections with the direct path
	secure  atomic.Pointer[http.Transport] // over TLS
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport. Fields of o that are zero get their defaults.
func NewTransport(o TransportOptions) *Transport {
	return o.transport(direct.Works && o.Dial == nil)
}

// transport returns a transport with or without a direct path.
func (o TransportOptions) transport(directly bool) *Transport {
	orElse(&o.Connect, 5*time.Second)
	orElse(&o.Idle, 90*time.Second)
	orElse(&o.MaxIdle, 64)
	if o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}).DialContext
	}
	secure := &http.Transport{
		// No Proxy: requests go only to the configured upstream.
		DialContext:            upstream.Dial(o.Dial).Conns,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    o.Connect,
		ResponseHeaderTimeout:  o.Answer,
		IdleConnTimeout:        o.Idle,
		ExpectContinueTimeout:  patience,
		MaxConnsPerHost:        o.MaxConnections,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdle,
		MaxResponseHeaderBytes: upstream.MaxHead,
		DisableCompression:     true, // bodies pass as they are
		ForceAttemptHTTP2:      true,
	}
	t := &Transport{connect: o.Connect, plain: secure.Clone()}
	t.secure.Store(secure)
	if directly {
		t.direct = direct.New(direct.Options{
			Dial: o.Dial, Connect: o.Connect, Answer: o.Answer, Idle: o.Idle, MaxConnections: o.MaxConnections, MaxIdle: o.MaxIdle,
		})
		t.plain.DialContext = t.direct.Dial
		if o.MaxConnections > 0 {
			// Unused connections of package http cannot be closed for a request on the direct path. They end soon
			// enough that such a request gets a connection in time.
			t.plain.IdleConnTimeout = min(o.Idle, o.Connect/4)
		}
	}
	return t
}

func orElse[T time.Duration | int | int64](v *T, fallback T) {
	if *v == 0 {
		*v = fallback
	}
}

// RoundTrip sends one request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, _, err := t.carry(r, nil)
	return res, err
}

// carry sends one request. Interim answers go to one receiver, nil for none. It returns the connection
// too, if no other request uses it at the same time.
func (t *Transport) carry(r *http.Request, to *interim) (*http.Response, *upstream.Conn, error) {
	// The transport's own limits begin with a dial. Without this timer, a request could wait
	// forever for a connection to become free. The context ends with the context of the
	// request, after its answer.
	ctx, cancel := context.WithCancelCause(r.Context())
	passage := passageOf(ctx)
	var fit atomic.Bool // the transport accepts the request
	var conn atomic.Pointer[upstream.Conn]
	timer := time.AfterFunc(t.connect, func() { cancel(upstream.ErrConnectTimeout) })
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { fit.Store(true) },
		GotConn: func(got httptrace.GotConnInfo) {
			timer.Stop()
			passage.forward()
			c := upstream.Of(got.Conn)
			conn.Store(c)
			if c != nil {
				c.AwaitCertainty()
			}
		},
		PutIdleConn: func(error) {
			if c := conn.Load(); c != nil {
				c.Rest()
			}
		},
	}
	if to != nil {
		trace.Got1xxResponse = func(status int, header textproto.MIMEHeader) error { return to.pass(status, http.Header(header)) }
	}
	carrier := t.plain
	if r.URL.Scheme == "https" {
		carrier = t.secure.Load()
	}
	res, err := carrier.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	timer.Stop()
	if err != nil && errors.Is(context.Cause(ctx), upstream.ErrConnectTimeout) {
		return nil, nil, upstream.ErrConnectTimeout
	}
	if err != nil && !fit.Load() && r.Context().Err() == nil {
		return nil, nil, errMalformed
	}
	if err != nil || res.ProtoMajor != 1 {
		return res, nil, err
	}
	c := conn.Load()
	if res.StatusCode == http.StatusSwitchingProtocols && c != nil {
		c.Uncount() // it may last as long as the client
	}
	return res, c, nil
}

// SetTLS makes later requests to an https upstream use another configuration, on new connections. Requests under way end on
// their connections, which are then closed. These connections do not count for MaxConnections. SetTLS is safe for
// concurrent use with requests, and not with itself.
func (t *Transport) SetTLS(config *tls.Config) {
	old := t.secure.Load()
	next := old.Clone()
	next.TLSClientConfig = config
	t.secure.Store(next)
	old.CloseIdleConnections()
}

// Close closes the connections that are not in use.
func (t *Transport) Close() {
	t.plain.CloseIdleConnections()
	t.secure.Load().CloseIdleConnections()
	if t.direct != nil {
		t.direct.Close()
	}
}
