package algo

// SlidingWindow counts units in cells of Length/N: the N cells of one window, and the cell that
// is leaving. No interval of one window's length ever holds more than Count. A steady client gets
// count·N/(N+1) per window, or slightly less.
//
// With CountDenied it counts the units of a denied attempt too, so that a client that keeps trying
// stays denied. Requests without cost always pass then, because an attempt cannot be distinguished
// from debt.
//
// Its state has N+3 words: the number of the newest cell, the sum of all cells (at most MaxCount),
// and a ring of N+1 cells.
type SlidingWindow struct {
	Count       int64
	Length      int64 // microseconds, a multiple of Cells
	Cells       int64
	CountDenied bool
}

// MaxCells bounds the cells of a SlidingWindow.
const MaxCells = 256

const (
	cellsIndex = iota
	cellsSum
	cellsFirst
)

// Words returns the size of a SlidingWindow's state.
func (c *SlidingWindow) Words() int { return cellsFirst + int(c.Cells) + 1 }

func (c *SlidingWindow) cell() int64 { return c.Length / c.Cells }

func (c *SlidingWindow) at(w []uint64, index int64) *uint64 {
	return &w[cellsFirst+index%(c.Cells+1)]
}

// settled returns the newest cell as of the request, the units that still count, the time from
// which to compute, and whether the clock was set back.
func (c *SlidingWindow) settled(w []uint64, now int64) (index int64, used uint64, at int64, setBack bool) {
	newest := int64(w[cellsIndex])
	index = now / c.cell()
	if index < newest {
		start := newest * c.cell()
		if start-now > c.Length {
			return index, max(w[cellsSum], uint64(c.Count)), now, true
		}
		return newest, w[cellsSum], start, false
	}
	if index-newest > c.Cells {
		return index, 0, now, false
	}
	used = w[cellsSum]
	for i := newest + 1; i <= index; i++ {
		used -= *c.at(w, i)
	}
	return index, used, now, false
}

// advance moves the ring to its newest cell.
func (c *SlidingWindow) advance(w []uint64, index int64, used uint64) {
	from := max(int64(w[cellsIndex]), index-c.Cells-1)
	for i := from + 1; i <= index; i++ {
		*c.at(w, i) = 0
	}
	w[cellsIndex], w[cellsSum] = uint64(index), used
}

// collapse clears all cells but one.
func (c *SlidingWindow) collapse(w []uint64, index int64, used uint64) {
	clear(w)
	w[cellsIndex], w[cellsSum] = uint64(index), used
	*c.at(w, index) = used
}

// attempt counts the units of a denied attempt. Above a total of MaxCount it drops the oldest
// units: the newest ones decide when there is room again.
func (c *SlidingWindow) attempt(w []uint64, index int64, used, cost uint64) {
	over := used + cost - min(used+cost, MaxCount)
	c.advance(w, index, used+cost-over)
	for i := max(0, index-c.Cells); over > 0; i++ {
		cell := c.at(w, i)
		gone := min(over, *cell)
		*cell, over = *cell-gone, over-gone
	}
	*c.at(w, index) += cost
}

// Decide decides one request. With commit it updates the state; a denial changes it only with
// CountDenied. Without commit it writes nothing.
func (c *SlidingWindow) Decide(w []uint64, req Request, commit bool) Result {
	index, used, at, setBack := c.settled(w, req.Now)
	if setBack && commit {
		c.collapse(w, index, used)
	}
	limit := c.Count - req.Floor
	res := Result{Remaining: left(c.Count, req.Floor, used)}
	if used > 0 {
		res.ResetAfter = c.leaves(w, index, used, 0) - req.Now
		if setBack {
			res.ResetAfter = (index+c.Cells+1)*c.cell() - req.Now
		}
	}
	if start := index * c.cell(); used == 0 && start > req.Now {
		res.ResetAfter = start - req.Now // the clock went back to before empty cells
	}
	if req.Cost == 0 {
		limit = c.Count // passes unless in debt
		if c.CountDenied {
			limit = max(limit, int64(used))
		}
	} else if req.Cost > limit {
		res.Reason = Never
		return res
	}
	if room := limit - req.Cost; int64(used) > room {
		counted := used
		if c.CountDenied {
			// Decide as if the cells already held this attempt: it exceeds what was left.
			counted += uint64(req.Cost)
			res.Remaining, res.ResetAfter = 0, (index+c.Cells+1)*c.cell()-req.Now
		}
		res.Reason, res.RetryAfter = Limited, c.leaves(w, index, counted, uint64(room))-req.Now
		if setBack {
			res.RetryAfter = res.ResetAfter
		}
		if c.CountDenied && commit {
			c.attempt(w, index, used, uint64(req.Cost))
		}
		return res
	}
	res.Allowed, res.At = true, at
	if req.Cost == 0 {
		return res
	}
	res.Remaining -= req.Cost
	res.ResetAfter = (index+c.Cells+1)*c.cell() - req.Now
	if commit {
		c.advance(w, index, used+uint64(req.Cost))
		*c.at(w, index) += uint64(req.Cost)
	}
	return res
}

// Restore writes a state into w, which is all zeros. newest is the number of its newest cell;
// cells has the units of its cells, the newest first. There are at most Cells+1 cells, and none
// before the epoch.
func (c *SlidingWindow) Restore(w []uint64, newest int64, cells []uint64) {
	w[cellsIndex] = uint64(newest)
	for i, units := range cells {
		w[cellsSum] += units
		*c.at(w, newest-int64(i)) = units
	}
}

// leaves returns the time at which at most room units still count, because older cells have left
// the window.
func (c *SlidingWindow) leaves(w []uint64, index int64, used, room uint64) int64 {
	newest := int64(w[cellsIndex])
	for i := index - c.Cells; i <= newest; i++ {
		if i < 0 {
			continue
		}
		used -= *c.at(w, i)
		if used <= room {
			return (i + c.Cells + 1) * c.cell()
		}
	}
	return (index + c.Cells + 1) * c.cell()
}

// Fresh reports whether no cell counts any more.
func (c *SlidingWindow) Fresh(w []uint64, now int64) bool {
	index, used, _, _ := c.settled(w, now)
	return used == 0 && index == now/c.cell()
}

// Cancel gives a charge back at the moment at which it was made. Later it gives back nothing.
func (c *SlidingWindow) Cancel(w []uint64, now int64, ch Charge) {
	if now <= ch.At {
		c.Settle(w, now, ch, 0)
	}
}

// Settle replaces the cost of a charge by the actual cost, while its cell counts.
func (c *SlidingWindow) Settle(w []uint64, now int64, ch Charge, actual int64) {
	index, used, _, setBack := c.settled(w, now)
	i := ch.At / c.cell()
	if setBack || index-i > c.Cells || i*c.cell()-now > c.Length {
		return
	}
	if i > index { // a charge that cost nothing did not move the state
		index = i
		_, used, _, _ = c.settled(w, ch.At)
	}
	c.advance(w, index, used)
	if cell := c.at(w, i); actual <= ch.Cost {
		give := min(*cell, uint64(ch.Cost-actual))
		*cell -= give
		w[cellsSum] -= give
	} else {
		more := min(uint64(actual-ch.Cost), MaxCount-min(w[cellsSum], MaxCount))
		*cell += more
		w[cellsSum] += more
	}
}

// Restamps reports whether Convert counts earlier units as of now. If that happened again and
// again, the units would never expire.
func (c *SlidingWindow) Restamps(from *SlidingWindow, w []uint64, now int64) bool {
	_, _, _, setBack := from.settled(w, now) //nolint:dogsled // nothing else matters
	return (from.Length != c.Length || from.Cells != c.Cells) && !setBack
}

// Convert writes into w the state that from's state old becomes under these numbers. If the length
// or the number of cells changes, the units that count now are counted as of now.
func (c *SlidingWindow) Convert(from *SlidingWindow, w, old []uint64, now int64) {
	index, used, at, setBack := from.settled(old, now)
	if from.Length == c.Length && from.Cells == c.Cells {
		copy(w, old)
		if setBack {
			c.collapse(w, index, used)
		}
		return
	}
	c.collapse(w, at/c.cell(), used)
}
