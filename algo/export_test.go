package algo

// Wait returns the microseconds it takes to refill ticks.
func (p Pace) Wait(ticks uint64) int64 { return p.wait(ticks) }
