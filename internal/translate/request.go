package translate

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// Request returns the question that a request puts to its algorithm, without the time.
func Request(r *sluice.Request) algo.Request {
	return algo.Request{Cost: r.Cost, Floor: r.Floor, MaxWait: MaxWait(r.MaxWait), Member: r.Member}
}

// MaxWait rounds a wait down to microseconds; one that is shorter is none.
func MaxWait(d time.Duration) int64 {
	if d < 0 || 0 < d && d < time.Microsecond {
		return -1
	}
	return int64(d / time.Microsecond)
}
