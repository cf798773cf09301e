package proxy

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// readControl sets deadlines for reads of a request's body, until the handler of the request ends. The
// transport may still read the body then, if the upstream has answered early. A deadline set after
// that would be for the next request over HTTP/1, and over HTTP/2 net/http would panic.
type readControl struct {
	control *http.ResponseController

	mu    sync.Mutex
	ended bool
}

// SetReadDeadline sets the deadline for reads. It fails when the handler has ended.
func (c *readControl) SetReadDeadline(deadline time.Time) error {
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
