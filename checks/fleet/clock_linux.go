package fleet

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Clock returns a time that all processes of the machine share and that never jumps: nanoseconds of
// CLOCK_MONOTONIC, which Go's monotonic time also counts.
type Clock struct {
	start time.Time
	at    int64 // CLOCK_MONOTONIC at the start
}

// NewClock returns a clock that is right to within the time that it takes to read a clock.
func NewClock() (Clock, error) {
	var best Clock
	least := time.Hour
	for range 20 {
		var now unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return Clock{}, err
		}
		if took := time.Since(before); took < least {
			least = took
			best = Clock{before.Add(took / 2), now.Nano()}
		}
	}
	return best, nil
}

// Now returns the time in nanoseconds.
func (c Clock) Now() int64 { return c.at + int64(time.Since(c.start)) }
