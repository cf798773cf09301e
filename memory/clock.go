package memory

import (
	"sync/atomic"
	"time"
)

// clock tells the time in microseconds since the epoch: the wall clock as it was
// when anchored, and the monotonic clock since. It never goes back. When the wall
// clock is found ahead, after a correction or a suspension, the anchor is moved forward.
type clock struct {
	start  time.Time    // the monotonic clock's zero
	anchor atomic.Int64 // wall microseconds at start
}

// tolerance is how many microseconds ahead the wall clock must be to move the anchor.
const tolerance = 1000

func (c *clock) init() {
	c.start = time.Now()
	c.anchor.Store(c.start.UnixMicro())
}

// now reads the monotonic clock.
func (c *clock) now() int64 {
	return c.anchor.Load() + int64(time.Since(c.start))/1000
}

// follow moves the anchor forward if the wall clock is ahead of now.
func (c *clock) follow(wall, now int64) {
	if ahead := wall - now; ahead > tolerance {
		anchor := c.anchor.Load()
		// Who comes second finds the anchor moved, and looks again another time.
		c.anchor.CompareAndSwap(anchor, anchor+ahead)
	}
}
