package linearizable

import "github.com/sluicehq/sluice"

// ring is a sliding window of cells.
type ring struct {
	noLease
	now   int64
	cells [cells + 1]int64 // the newest first
}

const cellLength = length / cells

func (r ring) advance(now int64) state {
	moved := now/cellLength - r.now/cellLength
	r.now = now
	old := r.cells
	r.cells = [cells + 1]int64{}
	for i := range old {
		if j := int64(i) + moved; j < int64(len(old)) {
			r.cells[j] = old[i]
		}
	}
	return r
}

func (r ring) used() (sum int64) {
	for _, n := range r.cells {
		sum += n
	}
	return sum
}

// falls returns the time until no more than room units count.
func (r ring) falls(room int64) int64 {
	used := r.used()
	if used <= room {
		return 0
	}
	for i := len(r.cells) - 1; i >= 0; i-- {
		if used -= r.cells[i]; used <= room {
			return (r.now/cellLength+int64(len(r.cells)-i))*cellLength - r.now
		}
	}
	panic("more than no unit is left")
}

func (r ring) decide(a ask) (sluice.Decision, state) {
	used, reset := r.used(), r.falls(0)
	remaining := count - a.floor - used
	switch {
	case a.cost == 0 && used > count:
		return limited(0, r.falls(count), reset), r
	case a.cost == 0:
		return allowed(remaining, 0, reset), r
	case a.cost > count-a.floor:
		return never(remaining, reset), r
	case a.cost > remaining:
		return limited(remaining, r.falls(count-a.floor-a.cost), reset), r
	}
	r.cells[0] += a.cost
	return allowed(remaining-a.cost, 0, r.falls(0)), r
}

func (r ring) cancel(c charge) state {
	if r.now > c.at {
		return r
	}
	return r.settle(c, 0)
}

func (r ring) settle(c charge, actual int64) state {
	if i := r.now/cellLength - c.at/cellLength; i < int64(len(r.cells)) {
		r.cells[i] = max(0, r.cells[i]+actual-c.cost)
	}
	return r
}
