package oracle

import "maps"

// Cells is a sliding window. It keeps the units of each cell by the number of the cell.
type Cells struct {
	count, length, cells int64
	countDenied          bool

	units  map[int64]int64
	newest int64
	last   int64 // the latest charge
}

// NewCells returns a sliding window of count units. It has this many cells, and one more cell, which is
// leaving.
func NewCells(count, length, cells int64, countDenied bool) Cells {
	return Cells{count: count, length: length, cells: cells, countDenied: countDenied}
}

func (c Cells) cell() int64 { return c.length / c.cells }

// used returns the units that count in a cell.
func (c Cells) used(cell int64) (sum int64) {
	for i, n := range c.units {
		if i >= cell-c.cells && i <= cell {
			sum += n
		}
	}
	return sum
}

// at returns the cell of a time with the units that count, the time from which to count, and whether
// the clock was set back.
func (c Cells) at(now int64) (cell, used, at int64, setBack bool) {
	cell = now / c.cell()
	if cell >= c.newest {
		return cell, c.used(cell), now, false
	}
	if start := c.newest * c.cell(); start-now <= c.length {
		return c.newest, c.used(c.newest), start, false
	}
	return cell, max(c.used(c.newest), c.count), now, true
}

// Allows implements State.
func (c Cells) Allows(r Request) (bool, int64, Reason) {
	_, used, _, _ := c.at(r.Now)
	switch {
	case r.Cost == 0 && min(used, most) <= c.count:
		return true, 0, None
	case r.Cost > 0 && r.beyond(c.count, most):
		return false, 0, Never
	case r.Cost > 0 && used <= c.count-r.Floor-r.need(c.count, most):
		return true, 0, None
	}
	return false, 0, Limited
}

// Take implements State.
func (c Cells) Take(r Request, allowed bool) (State, Charge) {
	cell, used, at, setBack := c.at(r.Now)
	if setBack {
		c.units, c.newest, c.last = map[int64]int64{cell: used}, cell, at
	}
	if r.Cost > 0 && (allowed || r.Debit || c.countDenied && !r.beyond(c.count, most)) {
		c.last = c.later(at)
		c = c.from(cell)
		if allowed {
			r.Cost = min(r.Cost, most-used)
		}
		c.units[cell] += min(r.Cost, most)
	}
	return c, Charge{Cost: r.Cost, At: at}
}

// later returns the time of the latest charge, after another one.
func (c Cells) later(at int64) int64 {
	if sum(c.units) == 0 {
		return at
	}
	return max(c.last, at)
}

// from returns a copy in which a cell is the newest.
func (c Cells) from(cell int64) Cells {
	old := c.units
	c.newest, c.units = cell, map[int64]int64{}
	for i, n := range old {
		if i >= cell-c.cells {
			c.units[i] = n
		}
	}
	return c
}

// Remaining implements State.
func (c Cells) Remaining(r Request) int64 {
	if r.Floor > c.count {
		return 0
	}
	_, used, _, _ := c.at(r.Now)
	return max(0, c.count-r.Floor-used)
}

// Fresh implements State.
func (c Cells) Fresh(now int64) bool {
	cell, used, _, _ := c.at(now)
	return used == 0 && cell == now/c.cell()
}

// Settle implements State.
func (c Cells) Settle(now int64, ch Charge, actual int64) State {
	cell, _, _, setBack := c.at(now)
	if ch.At == Newest && !setBack {
		c = c.from(cell)
		giveBack(c.units, ch.Cost-min(actual, ch.Cost))
		return c
	}
	i := ch.At / c.cell()
	if setBack || cell-i > c.cells || i*c.cell()-now > c.length {
		return c
	}
	c.last = c.later(ch.At)
	c = c.from(max(cell, i)) // a charge of no cost did not move the state
	c.units[i] = max(0, c.units[i]+actual-ch.Cost)
	return c
}

// Cancel implements State.
func (c Cells) Cancel(now int64, ch Charge) State {
	if ch.Cost == 0 || now > ch.At {
		return c
	}
	return c.Settle(now, ch, 0)
}

// Equal implements State.
func (c Cells) Equal(s State) bool {
	o := s.(Cells)
	return c.newest == o.newest && maps.Equal(c.units, o.units)
}
