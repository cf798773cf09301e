package memory

import (
	"sync/atomic"
	"time"
)

// clock tells the time in microseconds since the epoch: the wall clock as it was
// when anchored, and the monotonic clock since. It never goes back. When the wall
// clock is found ahead, after a correction or a suspension, the anchor is moved forward.
type clock struct {
	start   time.Time    // the monotonic clock's zero
	anchor  atomic.Int64 // wall microseconds at start
	checked atomic.Int64 // when the wall clock was last looked at
}

const (
	// checkEvery is how often the wall clock is looked at, in microseconds.
	checkEvery = 1_000_000
	// tolerance is how far ahead it must be to move the anchor.
	tolerance = 1000
)

func newClock() *clock {
	c := &clock{start: time.Now()}
	c.anchor.Store(c.start.UnixMicro())
	return c
}

// now reads the monotonic clock; once in checkEvery, the wall clock too.
func (c *clock) now() int64 {
	passed := int64(time.Since(c.start)) / 1000
	if last := c.checked.Load(); passed-last > checkEvery && c.checked.CompareAndSwap(last, passed) {
		c.follow(time.Now().UnixMicro(), passed)
	}
	return c.anchor.Load() + passed
}

// follow moves the anchor forward if the wall clock is ahead.
func (c *clock) follow(wall, passed int64) {
	if anchor := c.anchor.Load(); wall > anchor+passed+tolerance {
		c.anchor.CompareAndSwap(anchor, wall-passed)
	}
}
