package hybrid

import (
	"math"
	"time"
)

// instant is a time by both clocks, in nanoseconds: the monotonic clock since the store was made,
// and the wall clock since the Unix epoch. The monotonic clock stops while the computer is
// suspended. The wall clock may be set. A grant ends when one of them has passed its deadline.
type instant struct{ mono, wall int64 }

// never is a deadline that does not pass.
var never = instant{math.MaxInt64, math.MaxInt64}

// before reports whether neither clock has reached a deadline.
func (t instant) before(deadline instant) bool {
	return t.mono < deadline.mono && t.wall < deadline.wall
}

// plus returns the instant d nanoseconds later.
func (t instant) plus(d int64) instant { return instant{t.mono + d, t.wall + d} }

// clock reads both clocks.
type clock struct {
	start time.Time
	wall  func() int64 // nil: the clock of time.Now
	drift float64      // in simulations, with wall: how much faster the monotonic clock is
}

func (c *clock) now() instant {
	if c.wall != nil {
		return instant{int64(float64(time.Since(c.start)) * (1 + c.drift)), c.wall()}
	}
	t := time.Now()
	return instant{int64(t.Sub(c.start)), t.UnixNano()}
}

// margin returns how much earlier a deadline is here than in the store, so that two clocks that
// drift apart do not matter. It covers a drift of 1/128, some forty times what clocks do.
func margin(left int64) int64 { return left/128 + int64(time.Millisecond) }
