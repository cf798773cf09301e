package algo

// carry is how a window or a log pays back units that were counted under other numbers. The units
// count as used all at once, at the latest moment of use. No period gives back more than its count.
//
// Each algorithm counts the smaller of two numbers: the units that carry leaves, and the units that the
// old numbers still count. So nobody waits longer than under the old numbers. Both numbers follow from
// the kept state and the time, so a denial need not write.
type carry struct {
	units uint64
	count uint64 // units that come back at each moment
	first int64  // the first of these moments
	step  int64  // from one to the next
}

// left returns the units that are not paid back at a time.
func (c carry) left(now int64) uint64 {
	if now < c.first {
		return c.units
	}
	paid, _ := mulDiv(uint64((now-c.first)/c.step)+1, c.count, 1)
	return c.units - min(c.units, paid)
}

// until returns when at most room units are left.
func (c carry) until(room uint64) int64 {
	if c.units <= room {
		return 0
	}
	times, _ := mulDiv((c.units-room-1)/c.count, uint64(c.step), 1)
	return c.first + int64(times)
}
