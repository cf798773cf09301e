package algo

// carry says how units that other numbers have counted are paid back under the numbers of a
// window or a log: as if they had been used all at once, at the latest moment of use, and no
// period gave back more than its count.
//
// Each algorithm takes the smaller of what carry leaves and of what the old numbers still count.
// So a state that the old numbers may forget counts nothing, and nobody waits longer than under
// the old numbers. Both depend on the kept state and the time only: a denial need not write.
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
