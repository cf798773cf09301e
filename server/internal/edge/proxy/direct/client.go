// Package direct is a client of HTTP/1.1 that carries plain requests: without a body, to an upstream without TLS. It
// does everything in the goroutine of the handler: it writes the request, reads the answer, and keeps the connection.
// This takes about half of the instructions of http.Transport. The proxy works without it, because http.Transport can
// carry every request. See docs/adr/0037.
package direct

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

// Works reports whether connections of this system can be used directly.
const Works = upstream.CanReadRaw

// MostHead is the size of the longest head of a request. It fits into the send buffer of a connection.
const MostHead = 16 << 10

// Options configure a Client.
type Options struct {
	// Dial makes connections. Required.
	Dial upstream.Dial
	// Connect is how long a request may wait until it has a connection. Required.
	Connect time.Duration
	// Answer is how long the head of an answer may take. Zero: no bound.
	Answer time.Duration
	// Idle is how long an unused connection is kept. Required.
	Idle time.Duration
	// MaxConnections is how many connections there may be to each upstream at once. Zero: no bound.
	MaxConnections int
	// MaxIdle is how many unused connections to each upstream are kept.
	MaxIdle int
}

// Client carries requests. Most callers need Send and Close. Dial lets http.Transport share the bound on connections.
// A Client is safe for concurrent use.
type Client struct {
	o Options

	mu      sync.Mutex
	origins map[string]*origin // by address
	sweeper *time.Timer        // runs while connections are kept
	closed  bool
}

// New returns a client without connections.
func New(o Options) *Client { return &Client{o: o, origins: map[string]*origin{}} }

// Steps are called in the course of a request.
type Steps interface {
	// Forwarded reports that a connection gets the request.
	Forwarded()
	// Withdrawn reports that the connection got nothing of the request.
	Withdrawn()
	// Interim gets the interim answers (1xx). An error ends the request.
	Interim(status int, header http.Header) error
	// Outlasts reports whether the request lasts longer than its client.
	Outlasts() bool
}

// Request is a request without a body.
type Request struct {
	*http.Request
	// Address is the address of the upstream.
	Address string
	// Head is what is sent: the request line and the header, with the empty line. At most MostHead bytes.
	Head  []byte
	Steps Steps
}

// Answer is an answer up to its body: either Plain or Response is set. The caller closes the body, which ends the use
// of Conn.
type Answer struct {
	Plain    *Plain
	Response *http.Response
	Conn     *upstream.Conn
}

// Send sends a request, and reads the answer up to its body. It repeats the request once if a kept connection has ended
// without a byte of an answer.
func (c *Client) Send(ctx context.Context, r Request) (Answer, error) {
	now := time.Now()
	d, err := c.take(ctx, r.Address, now)
	for err == nil {
		r.Steps.Forwarded()
		var answer Answer
		if answer, err = d.send(ctx, &r, now); err == nil {
			return answer, nil
		}
		stale, reused, repeat := errors.Is(err, errStale), d.reused, d.repeats(r.Request, err)
		switch {
		case stale && reused:
			r.Steps.Withdrawn()
			d.release(false)
			d, err = c.take(ctx, r.Address, now)
		case repeat:
			now = time.Now()
			d.forget()
			_ = d.conn.Close()                  // nobody needs it any more
			d, err = d.origin.connect(ctx, now) // instead of it
		default:
			d.release(false)
			return Answer{}, err
		}
	}
	return Answer{}, err
}

// send sends a request on a connection, and reads the answer up to its body.
func (d *conn) send(ctx context.Context, r *Request, now time.Time) (Answer, error) {
	answer := Answer{Conn: d.conn} // d may be kept before this returns
	if err := d.begin(ctx, r, now); err != nil {
		return Answer{}, err
	}
	if err := d.awaitAnswer(); err != nil {
		return Answer{}, err
	}
	if answer.Plain = d.plainAnswer(r.Method); answer.Plain != nil {
		if answer.Plain.Left == 0 {
			answer.Plain.Close()
		}
		return answer, nil
	}
	var err error
	answer.Response, err = d.answer(r) //nolint:bodyclose // the caller of Send closes it
	return answer, err
}

// repeats reports whether a request may be sent once more, after it failed. The upstream may have closed the
// connection when the request was on its way.
func (d *conn) repeats(r *http.Request, err error) bool {
	if !d.reused || d.got || d.ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if d.sending.n == 0 {
		return true
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// Dial makes a connection for http.Transport, when there may be one more.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	since := time.Now()
	c.mu.Lock()
	o := c.at(address)
	switch {
	case c.o.MaxConnections == 0 || o.open < c.o.MaxConnections:
		o.open++
		c.mu.Unlock()
	case len(o.kept) > 0:
		d := o.takeKept(0)
		c.mu.Unlock()
		_ = d.conn.Close() // this connection replaces it
	default:
		w := o.enqueue(false)
		c.mu.Unlock()
		if err := o.wait(ctx, w, since); err != nil {
			return nil, err
		}
	}
	conn, err := c.o.Dial(ctx, network, address)
	if err != nil {
		o.release()
		return nil, err
	}
	return upstream.New(conn, o.release), nil
}

// Close closes the unused connections, and keeps none from now on.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	if c.sweeper != nil {
		c.sweeper.Stop()
		c.sweeper = nil
	}
	var ended []*conn
	for _, o := range c.origins {
		ended = append(ended, o.kept...)
		o.kept = nil
	}
	c.mu.Unlock()
	for _, d := range ended {
		d.close()
	}
}
