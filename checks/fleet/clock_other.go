//go:build !linux

package fleet

import "time"

// A Clock returns a time that all processes of the machine share: the wall clock's, which may jump.
type Clock struct{}

// NewClock returns a clock.
func NewClock() (Clock, error) { return Clock{}, nil }

// Now returns the time in nanoseconds.
func (Clock) Now() int64 { return time.Now().UnixNano() }
