package storetest

import (
	"sync/atomic"
	"time"
)

// epoch is the time a Clock starts at: the beginning of a day, a month and a year (UTC).
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Clock is a virtual clock. Its time passes when a test says so, and stands still
// otherwise. It is safe for concurrent use.
type Clock struct {
	micros atomic.Int64
}

// NewClock returns a clock that stands at the beginning of the year 2030 (UTC).
func NewClock() *Clock {
	c := new(Clock)
	c.micros.Store(epoch.UnixMicro())
	return c
}

// Now returns the time in microseconds since the Unix epoch, as stores count it.
func (c *Clock) Now() int64 { return c.micros.Load() }

// Time returns the time.
func (c *Clock) Time() time.Time { return time.UnixMicro(c.Now()).UTC() }

// Advance lets whole microseconds of d pass; a negative d turns the clock back.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(int64(d / time.Microsecond)) }

// Set moves the clock to so many microseconds since the Unix epoch.
func (c *Clock) Set(micros int64) { c.micros.Store(micros) }
