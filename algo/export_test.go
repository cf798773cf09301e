package algo

// Fullness returns the bucket's period: that of its rate, or the time it takes to
// fill it, if that is longer.
func (b *Bucket) Fullness() int64 { return b.period }

// Wait returns the microseconds it takes to refill ticks.
func (p Pace) Wait(ticks uint64) int64 { return p.wait(ticks) }
