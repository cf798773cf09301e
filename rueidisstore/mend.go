package rueidisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// Rueidis connects within the context of a call. A call with a short deadline, such as a guard's,
// may never have the time for all the round trips of a new connection. So after a call has failed,
// the client makes another one in the background that has more time, and changes nothing. It is the
// only call in progress of its kind, for each group of slots. It is repeated twice.
const (
	mendTime = 2 * time.Second
	// mendDial is how long an attempt to connect takes. TCP by itself repeats a lost first packet
	// only after a second, so that a connection would come late after lost packets.
	mendDial = 250 * time.Millisecond
)

// mending is the key of contexts of such calls.
type mending struct{}

// mend opens a lost connection to the server of a key in the background.
func (c *Client) mend(key string, slot uint16) {
	busy := &c.lane.mending[groupOf(slot)]
	if busy.Swap(true) {
		return
	}
	go func() {
		defer busy.Store(false)
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), mending{}, true), mendTime)
		defer cancel()
		// A silent connection is closed at a write, and the write after it connects. The first attempt goes on beside the
		// others: it may connect, and calls that came later share its connection, or its failure.
		for _, patience := range []time.Duration{silence, mendTime, mendTime} {
			mended := make(chan bool, 1)
			go func() { mended <- c.reach(ctx, key) }()
			select {
			case ok := <-mended:
				if ok {
					return
				}
			case <-time.After(patience):
			}
		}
	}()
}

// reach makes a call that changes nothing, and reports whether the server of a key has answered.
func (c *Client) reach(ctx context.Context, key string) bool {
	began := c.lane.now()
	// The user of least privilege may not send PING.
	_, err := c.send(beside{ctx}, c.at(key, c.redis.B().Info().Section("server").Build()))
	if failed(err) {
		return false
	}
	c.lane.note(ctx, began, err)
	return true
}

// failed reports whether a call may have failed because its connection is lost.
func failed(err error) bool {
	return err != nil && !isReply(err) && !errors.Is(err, context.Canceled)
}

// patiently returns a function that connects as dial does, but repeats attempts of calls that mend.
func patiently(dial dialFunc) dialFunc {
	return func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		if ctx.Value(mending{}) == nil {
			return dial(ctx, address, d, config)
		}
		for {
			short, cancel := context.WithTimeout(ctx, mendDial)
			c, err := dial(short, address, d, config)
			cancel()
			late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
			if !late || ctx.Err() != nil {
				return c, err
			}
		}
	}
}
