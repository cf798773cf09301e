package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf returns the time that a process has used, in nanoseconds rather than the hundredths of a second in /proc.
func cpuOf(pid int) (time.Duration, error) {
	const scheduled = 2 // the clock of the scheduler: see clock_getcpuclockid
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Nano()), nil
}
