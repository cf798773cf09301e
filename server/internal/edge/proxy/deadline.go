package proxy

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// deadline is a deadline of a connection to a client. It is set again only if it is stale, because that is cheaper
// than to set it for each piece. A client always has the time that it is given, and at most an eighth or a second more.
type deadline struct {
	of deadliner
	// lasts says that the deadline may pass while nothing is read or written. Otherwise end removes it.
	lasts bool
	at    time.Time
}

// deadliner has a deadline.
type deadliner interface{ setDeadline(at time.Time) error }

// writes are the writes to a client.
type writes struct{ control *http.ResponseController }

func (w *writes) setDeadline(at time.Time) error { return w.control.SetWriteDeadline(at) }

// slack is how much more time than it is given a client may have.
func slack(most time.Duration) time.Duration { return min(most/8, time.Second) }

// begin makes sure that what begins now takes no longer than a time.
func (d *deadline) begin(now time.Time, most time.Duration) {
	if left := d.at.Sub(now); d.lasts && left >= most && left <= most+slack(most) {
		return
	}
	if at := now.Add(most + slack(most)); d.of.setDeadline(at) == nil {
		d.at = at
	} else {
		d.at = time.Time{} // writers without deadlines, in tests, get none
	}
}

// end removes a deadline that must not pass later.
func (d *deadline) end() {
	if !d.lasts {
		d.remove()
	}
}

// remove removes the deadline.
func (d *deadline) remove() {
	if !d.at.IsZero() {
		d.at = time.Time{}
		_ = d.of.setDeadline(time.Time{}) // it was set before
	}
}

// readControl sets deadlines for reads of a request's body, until the handler of the request ends. The
// transport may still read the body then, if the upstream has answered early. A deadline set after
// that would be for the next request over HTTP/1, and over HTTP/2 net/http would panic.
type readControl struct {
	control *http.ResponseController

	mu    sync.Mutex
	ended bool
}

// setDeadline sets the deadline for reads. It fails when the handler has ended.
func (c *readControl) setDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errHandlerEnded
	}
	return c.control.SetReadDeadline(deadline)
}

// end makes all later calls fail. The handler calls it before it ends.
func (c *readControl) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

var errHandlerEnded = errors.New("proxy: the handler of the request has ended")
