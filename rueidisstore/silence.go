package rueidisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// A connection that lost packets, or whose server is gone, looks like a slow one. Rueidis gives
// it up after ten seconds, and TCP sends lost bytes again after a pause that doubles each time.
// So a connection could stay useless for as long as an outage lasted, after its end. Therefore:
//
//   - On Linux, the system gives up a connection if what it sent is not acknowledged for a
//     second, which is TCP_USER_TIMEOUT. A busy server does not delay that.
//   - Everywhere, a connection is closed at the next write if nothing was read for silence
//     although something was written, and a caller has given up meanwhile: its context has ended.
//     Callers with more patience keep the connection. This also detects a proxy that acknowledges
//     for a dead server.
//
// The next call connects again.
const (
	unacknowledged = time.Second
	silence        = 400 * time.Millisecond
)

// errSilent reports a connection that was closed.
var errSilent = errors.New("rueidisstore: the server did not answer for 400 ms, and a caller gave up; the connection is closed")

// beside is the context of a call that no decision waits for. Such a call has a short time, and does not end calls that have more:
// it does not count as given up, and rueidis does not get its deadline. If nothing else uses a connection, rueidis sets the
// deadline of a call as the connection's, and closes it then, with all calls that came later.
type beside struct{ context.Context }

// Deadline returns none.
func (beside) Deadline() (time.Time, bool) { return time.Time{}, false }

// watch makes the connections of a client detect silence.
func (l *lane) watch(o *rueidis.ClientOption) {
	limitUnacknowledged(&o.Dialer)
	limitUnacknowledged(&o.Sentinel.Dialer)
	dial := patiently(dialerOf(o))
	o.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, address, d, config)
		if err != nil {
			return nil, err
		}
		return &watched{Conn: c, lane: l}, nil
	}
}

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialerOf returns how a client connects.
func dialerOf(o *rueidis.ClientOption) dialFunc {
	own, older := o.DialCtxFn, o.DialFn
	switch {
	case own != nil:
		return own
	case older != nil:
		return func(_ context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			return older(address, d, config)
		}
	}
	return func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		if config != nil {
			return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", address)
		}
		return d.DialContext(ctx, "tcp", address)
	}
}

// limitUnacknowledged lets the system give up connections of a dialer, if it can.
func limitUnacknowledged(d *net.Dialer) {
	if setUserTimeout == nil {
		return
	}
	set := func(network string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		// A system without the option still has the other way.
		return c.Control(func(fd uintptr) { _ = setUserTimeout(fd, unacknowledged) })
	}
	if own := d.ControlContext; own != nil { // net.Dialer ignores Control then
		d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
			return errors.Join(own(ctx, network, address, c), set(network, c))
		}
		return
	}
	own := d.Control
	d.Control = func(network, address string, c syscall.RawConn) error {
		if own != nil {
			if err := own(network, address, c); err != nil {
				return err
			}
		}
		return set(network, c)
	}
}

// watched is a connection that detects silence.
type watched struct {
	net.Conn
	lane *lane
	// since is when the first bytes were written after the last ones were read, 0 for never.
	since atomic.Int64
}

// Read reads from the connection.
func (c *watched) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.since.Store(0)
	}
	return n, err
}

// Write writes to the connection, or closes it if the server is silent.
func (c *watched) Write(b []byte) (int, error) {
	now := int64(max(1, c.lane.now()))
	since := c.since.Load()
	switch {
	case since == 0:
		c.since.CompareAndSwap(0, now)
	case now-since >= int64(silence) && c.lane.gaveUp.Load() > since:
		_ = c.Close() // errSilent is the error
		return 0, errSilent
	}
	// Rueidis writes as soon as its queue is empty, and its writer runs right after the first of several callers. Let
	// the others add their calls while this one is written, so that the next write has all of them.
	runtime.Gosched()
	return c.Conn.Write(b)
}
