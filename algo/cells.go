package algo

// SlidingWindow counts units in cells of Length/N: the N cells of one window,
// and the one that is leaving. No interval of one window's length ever holds more
// than Count. A steady caller gets count·N/(N+1) a window, or a little less. With
// CountDenied the units of a denied attempt are counted too, so that who keeps hammering
// stays blocked; questions of no cost always pass then, as attempts cannot be told from debt.
//
// Its state has N+3 words: the number of the newest cell, the sum of all, MaxCount at
// most, and the cells as a ring.
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

// Words is the size of a SlidingWindow's state.
func (c *SlidingWindow) Words() int { return cellsFirst + int(c.Cells) + 1 }

func (c *SlidingWindow) cell() int64 { return c.Length / c.Cells }

func (c *SlidingWindow) at(w []uint64, index int64) *uint64 {
	return &w[cellsFirst+index%(c.Cells+1)]
}

// settled returns the newest cell as of the question, the units that still
// count, and the time to reckon from.
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

// collapse forgets all cells but one.
func (c *SlidingWindow) collapse(w []uint64, index int64, used uint64) {
	clear(w)
	w[cellsIndex], w[cellsSum] = uint64(index), used
	*c.at(w, index) = used
}

// attempt counts the units of a denied attempt. Beyond MaxCount in all, the oldest units
// give way: the newest decide when there is room again.
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

// Decide answers one question. With commit the state is moved, by a denial only
// with CountDenied; without, nothing is written.
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
		res.ResetAfter = start - req.Now // the clock went back before cells with nothing in them
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
			// Answer as of cells that hold this attempt, which is more than was left.
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

// Restore writes into w, which is all zeros, the state of which the number of the
// newest cell is known, and the units of cells, the newest first. There are Cells+1 at
// most, and none before the epoch.
func (c *SlidingWindow) Restore(w []uint64, newest int64, cells []uint64) {
	w[cellsIndex] = uint64(newest)
	for i, units := range cells {
		w[cellsSum] += units
		*c.at(w, newest-int64(i)) = units
	}
}

// leaves returns when so many cells have left the window that no more than room
// units are counted.
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

// Cancel gives a charge back at the moment it was made; later, nothing.
func (c *SlidingWindow) Cancel(w []uint64, now int64, ch Charge) {
	if now <= ch.At {
		c.Settle(w, now, ch, 0)
	}
}

// Settle replaces the cost of a charge by the actual one while its cell counts.
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

// Restamps reports whether Convert counts as of now what from's state has counted
// before: who does so again and again keeps it from ever leaving.
func (c *SlidingWindow) Restamps(from *SlidingWindow, w []uint64, now int64) bool {
	_, _, _, setBack := from.settled(w, now) //nolint:dogsled // nothing else matters
	return (from.Length != c.Length || from.Cells != c.Cells) && !setBack
}

// Convert writes into w the state that from's state is under these numbers. When
// the cells change, what is counted now is counted as of now.
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
