package load

import (
	"time"

	"github.com/sluicehq/sluice/bench/process"
)

// A Client makes calls to a server.
type Client interface {
	// Caller returns the function with which one of its callers makes a call.
	Caller(i int) (call func() error)
	// Close ends it, when no call is on its way.
	Close()
}

// Measure is Run after a warm-up of an eighth of the time. It also returns the processor time that each of some servers
// has used.
func Measure(c Client, callers, rate int, length time.Duration, servers ...*process.Server) (r *Result, used []time.Duration, err error) {
	if _, err := Run(callers, 0, length/8, c.Caller); err != nil {
		return nil, nil, err
	}
	before := make([]time.Duration, len(servers))
	for i, s := range servers {
		if before[i], err = s.CPU(); err != nil {
			return nil, nil, err
		}
	}
	if r, err = Run(callers, rate, length, c.Caller); err != nil {
		return nil, nil, err
	}
	for i, s := range servers {
		after, err := s.CPU()
		if err != nil {
			return nil, nil, err
		}
		used = append(used, after-before[i])
	}
	return r, used, nil
}
