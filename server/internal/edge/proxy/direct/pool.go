package direct

import (
	"context"
	"slices"
	"time"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

// origin is an upstream to which there are connections.
type origin struct {
	all     *Client
	address string
	open    int       // connections and dials
	kept    []*conn   // the longest unused first
	waiting []*waiter // in their order
}

// waiter is a request, or a dial of http.Transport, that waits because there are as many connections as there may be.
type waiter struct {
	direct bool          // an unused connection will do
	conn   *conn         // nil: a connection may be made
	ready  chan struct{} // closed when it waits no more
}

// sweepEvery is how often connections that the upstream has closed are looked for.
const sweepEvery = 5 * time.Second

// at returns the origin at an address. The lock must be held.
func (c *Client) at(address string) *origin {
	o := c.origins[address]
	if o == nil {
		o = &origin{all: c, address: address}
		c.origins[address] = o
	}
	return o
}

// take returns a connection for one request: a kept one, or a new one.
func (c *Client) take(ctx context.Context, address string, now time.Time) (*conn, error) {
	c.mu.Lock()
	o := c.at(address)
	for len(o.kept) > 0 && len(o.waiting) == 0 {
		d := o.takeKept(len(o.kept) - 1)
		c.mu.Unlock()
		if now.Sub(d.since) < c.o.Idle {
			return d, nil
		}
		d.close()
		c.mu.Lock()
		o = c.at(address)
	}
	if c.o.MaxConnections == 0 || o.open < c.o.MaxConnections {
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

// takeKept removes a kept connection, and returns it. The lock must be held.
func (o *origin) takeKept(i int) *conn {
	d := o.kept[i]
	o.kept = slices.Delete(o.kept, i, i+1)
	return d
}

// enqueue appends a waiter. The lock must be held.
func (o *origin) enqueue(direct bool) *waiter {
	w := &waiter{direct: direct, ready: make(chan struct{})}
	o.waiting = append(o.waiting, w)
	return w
}

// wait waits until a waiter gets a connection, or may make one.
func (o *origin) wait(ctx context.Context, w *waiter, since time.Time) error {
	timer := time.NewTimer(o.all.o.Connect - time.Since(since))
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
		err = upstream.ErrConnectTimeout
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
		o.release()
	}
	return err
}

// connect makes a connection for a request that began at the time since. The connection is counted already.
func (o *origin) connect(ctx context.Context, since time.Time) (*conn, error) {
	until, cancel := context.WithDeadlineCause(ctx, since.Add(o.all.o.Connect), upstream.ErrConnectTimeout)
	defer cancel()
	c, err := o.all.o.Dial(until, "tcp", o.address)
	if err == nil {
		return newConn(o, c), nil
	}
	o.release()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case until.Err() != nil:
		return nil, upstream.ErrConnectTimeout
	}
	return nil, err
}

// release reports that a connection ended, so that another one may be made.
func (o *origin) release() {
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
func (o *origin) keep(d *conn) {
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
		_ = d.conn.Close()
		close(w.ready) // it makes a connection in place of this one
	case c.closed || len(o.kept) >= c.o.MaxIdle:
		c.mu.Unlock()
		d.close()
	default:
		d.since = time.Now()
		o.kept = append(o.kept, d)
		if c.sweeper == nil {
			c.sweeper = time.AfterFunc(min(c.o.Idle, sweepEvery), c.sweep)
		}
		c.mu.Unlock()
	}
}

// sweep closes the unused connections that were kept long enough, that the upstream has closed, or on which it has sent
// something.
func (c *Client) sweep() {
	c.mu.Lock()
	var kept []*conn
	for _, o := range c.origins {
		kept = append(kept, o.kept...)
	}
	c.mu.Unlock()
	now := time.Now()
	over := map[*conn]bool{}
	for _, d := range kept {
		// Connections that requests have taken since are not closed, whatever has arrived.
		if d.isStale() {
			over[d] = true
		}
	}
	var ended []*conn
	c.mu.Lock()
	left := 0
	for _, o := range c.origins {
		o.kept = slices.DeleteFunc(o.kept, func(d *conn) bool {
			if over[d] || now.Sub(d.since) >= c.o.Idle {
				ended = append(ended, d)
				return true
			}
			return false
		})
		left += len(o.kept)
	}
	if left > 0 && !c.closed {
		c.sweeper.Reset(min(c.o.Idle, sweepEvery))
	} else {
		c.sweeper = nil
	}
	c.mu.Unlock()
	for _, d := range ended {
		d.close()
	}
}
