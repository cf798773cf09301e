package proxy

import (
	"context"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

// connections are the connections to upstreams over plain HTTP/1.1. The connections of the direct path are kept here; the
// connections of http.Transport are only counted.
type connections struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	connect time.Duration // for a request to get a connection
	answer  time.Duration // for the head of an answer; zero for no bound
	lasts   time.Duration // for an unused connection
	most    int           // to each upstream at once; zero for no bound
	unused  int           // that are kept of each upstream

	mu      sync.Mutex
	origins map[string]*origin // by address
	sweeper *time.Timer        // runs while connections are kept
	closed  bool
}

// origin is an upstream to which there are connections.
type origin struct {
	all     *connections
	address string
	open    int           // connections and dials
	kept    []*directConn // the longest unused first
	waiting []*waiter     // in their order
}

// waiter is a request, or a dial of http.Transport, that waits because there are as many connections as there may be.
type waiter struct {
	direct bool          // an unused connection will do
	conn   *directConn   // nil: a connection may be made
	ready  chan struct{} // closed when it waits no more
}

// sweepEvery is how often connections that the upstream has closed are looked for.
const sweepEvery = 5 * time.Second

// addressOf returns the address of an upstream; false if the name has to be converted first.
func addressOf(u *url.URL) (string, bool) {
	if !isPlainHost(u.Host) {
		return "", false
	}
	if u.Port() != "" {
		return u.Host, true
	}
	return net.JoinHostPort(u.Hostname(), "80"), true
}

// at returns the origin at an address. The lock must be held.
func (c *connections) at(address string) *origin {
	o := c.origins[address]
	if o == nil {
		o = &origin{all: c, address: address}
		c.origins[address] = o
	}
	return o
}

// take returns a connection for one request: a kept one, or a new one.
func (c *connections) take(ctx context.Context, address string, now time.Time) (*directConn, error) {
	c.mu.Lock()
	o := c.at(address)
	for len(o.kept) > 0 && len(o.waiting) == 0 {
		last := len(o.kept) - 1
		d := o.kept[last]
		o.kept[last] = nil
		o.kept = o.kept[:last]
		c.mu.Unlock()
		if now.Sub(d.since) < c.lasts {
			return d, nil
		}
		d.close()
		c.mu.Lock()
		o = c.at(address)
	}
	if c.most == 0 || o.open < c.most {
		o.open++
		c.mu.Unlock()
		return o.connect(ctx, now)
	}
	w := o.enqueue(true)
	c.mu.Unlock()
	if err := o.wait(ctx, w, now); err != nil {
		return nil, err
	}
	if w.conn != nil {
		return w.conn, nil
	}
	return o.connect(ctx, now)
}

// enqueue appends a waiter. The lock must be held.
func (o *origin) enqueue(direct bool) *waiter {
	w := &waiter{direct: direct, ready: make(chan struct{})}
	o.waiting = append(o.waiting, w)
	return w
}

// wait waits until a waiter gets a connection, or may make one.
func (o *origin) wait(ctx context.Context, w *waiter, since time.Time) error {
	timer := time.NewTimer(o.all.connect - time.Since(since))
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
		err = errConnectTimeout
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	o.all.mu.Lock()
	if i := slices.Index(o.waiting, w); i >= 0 {
		o.waiting = slices.Delete(o.waiting, i, i+1)
		o.all.mu.Unlock()
		return err
	}
	o.all.mu.Unlock()
	if w.conn != nil { // it came too late
		o.keep(w.conn)
	} else {
		o.leave()
	}
	return err
}

// connect makes a connection for a request that began at the time since. The connection is counted already.
func (o *origin) connect(ctx context.Context, since time.Time) (*directConn, error) {
	until, cancel := context.WithDeadlineCause(ctx, since.Add(o.all.connect), errConnectTimeout)
	defer cancel()
	c, err := o.all.dial(until, "tcp", o.address)
	if err == nil {
		return newDirectConn(o, c), nil
	}
	o.leave()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case until.Err() != nil:
		return nil, errConnectTimeout
	}
	return nil, err
}

// leave reports that a connection ended, so that another one may be made.
func (o *origin) leave() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if w := o.first(); w != nil {
		close(w.ready)
		return
	}
	if o.open--; o.open == 0 {
		delete(o.all.origins, o.address)
	}
}

// first removes the first waiter, and returns it; nil if there is none. The lock must be held.
func (o *origin) first() *waiter {
	if len(o.waiting) == 0 {
		return nil
	}
	w := o.waiting[0]
	o.waiting = slices.Delete(o.waiting, 0, 1)
	return w
}

// keep gives a connection to the first waiter, or keeps it for a later request.
func (o *origin) keep(d *directConn) {
	c := o.all
	c.mu.Lock()
	w := o.first()
	switch {
	case w != nil && w.direct:
		w.conn = d
		close(w.ready)
		c.mu.Unlock()
	case w != nil:
		c.mu.Unlock()
		d.hangUp()
		close(w.ready) // it makes a connection in place of this one
	case c.closed || len(o.kept) >= c.unused:
		c.mu.Unlock()
		d.close()
	default:
		d.since = time.Now()
		o.kept = append(o.kept, d)
		if c.sweeper == nil {
			c.sweeper = time.AfterFunc(min(c.lasts, sweepEvery), c.sweep)
		}
		c.mu.Unlock()
	}
}

// sweep closes the unused connections that were kept long enough, that the upstream has closed, or on which it has sent
// something.
func (c *connections) sweep() {
	c.mu.Lock()
	var kept []*directConn
	for _, o := range c.origins {
		kept = append(kept, o.kept...)
	}
	c.mu.Unlock()
	now := time.Now()
	over := map[*directConn]bool{}
	for _, d := range kept {
		// Connections that requests have taken since are not closed, whatever has arrived.
		if d.isStale() {
			over[d] = true
		}
	}
	var ended []*directConn
	c.mu.Lock()
	left := 0
	for _, o := range c.origins {
		o.kept = slices.DeleteFunc(o.kept, func(d *directConn) bool {
			if over[d] || now.Sub(d.since) >= c.lasts {
				ended = append(ended, d)
				return true
			}
			return false
		})
		left += len(o.kept)
	}
	if left > 0 && !c.closed {
		c.sweeper.Reset(min(c.lasts, sweepEvery))
	} else {
		c.sweeper = nil
	}
	c.mu.Unlock()
	for _, d := range ended {
		d.close()
	}
}

// close closes the unused connections, and keeps none from now on.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	if c.sweeper != nil {
		c.sweeper.Stop()
		c.sweeper = nil
	}
	var ended []*directConn
	for _, o := range c.origins {
		ended = append(ended, o.kept...)
		o.kept = nil
	}
	c.mu.Unlock()
	for _, d := range ended {
		d.close()
	}
}

// dialCounted makes a connection for http.Transport, when there may be one more.
func (c *connections) dialCounted(ctx context.Context, network, address string) (net.Conn, error) {
	since := time.Now()
	c.mu.Lock()
	o := c.at(address)
	switch {
	case c.most == 0 || o.open < c.most:
		o.open++
		c.mu.Unlock()
	case len(o.kept) > 0:
		d := o.kept[0]
		o.kept = slices.Delete(o.kept, 0, 1)
		c.mu.Unlock()
		d.hangUp()
	default:
		w := o.enqueue(false)
		c.mu.Unlock()
		if err := o.wait(ctx, w, since); err != nil {
			return nil, err
		}
	}
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		o.leave()
		return nil, err
	}
	u := newUpstreamConn(conn)
	u.leave = sync.OnceFunc(o.leave)
	return u, nil
}
