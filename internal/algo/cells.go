package algo

// SlidingWindow counts units in cells of Length/N: the N cells of one window, and the cell that
// is leaving. No interval of one window's length ever holds more than Count. A steady client gets
// count·N/(N+1) per window, or slightly less.
//
// With CountDenied it counts the units of a denied attempt too, so that a client that keeps trying
// stays denied.
//
// Its state has N+4 words: the number of the newest cell, the sum of all cells, at most MaxCount,
// the moment of the latest charge, and the cells as a ring.
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
	cellsLatest
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

// date keeps the moment of a charge, before it is counted.
func (c *SlidingWindow) date(w []uint64, at int64) {
	if w[cellsSum] > 0 {
		at = max(at, int64(w[cellsLatest]))
	}
	w[cellsLatest] = uint64(at)
}

// collapse clears all cells but one.
func (c *SlidingWindow) collapse(w []uint64, index int64, used uint64, at int64) {
	clear(w)
	w[cellsIndex], w[cellsSum], w[cellsLatest] = uint64(index), used, uint64(at)
	*c.at(w, index) = used
}

// attempt counts the units of a denied attempt, or of a debit that was denied. Above a total of MaxCount it drops the
// oldest units: the newest ones decide when there is room again.
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
// CountDenied, or for a debit. Without commit it writes nothing.
func (c *SlidingWindow) Decide(w []uint64, req Request, commit bool) Result {
	index, used, at, setBack := c.settled(w, req.Now)
	if setBack && commit {
		c.collapse(w, index, used, at)
	}
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
	room, counts := req.room(c.Count, MaxCount), req.Debit
	switch {
	case room < 0:
		res.Reason = Never
	case int64(used) > room:
		res.Reason = Limited
		counts = counts || c.CountDenied
	}
	if res.Reason != None {
		counted, cost := used, uint64(min(req.Cost, MaxCount))
		counts = counts && cost > 0
		if counts {
			// Decide as if the cells already held the cost, which exceeds what was left.
			counted += cost
			res.Remaining, res.ResetAfter = 0, (index+c.Cells+1)*c.cell()-req.Now
		}
		if res.Reason == Limited {
			res.RetryAfter = c.leaves(w, index, counted, uint64(room)) - req.Now
			if setBack {
				res.RetryAfter = res.ResetAfter
			}
		}
		if counts && commit {
			c.date(w, at)
			c.attempt(w, index, used, cost)
		}
		return res
	}
	res.Allowed, res.At = true, at
	if req.Cost == 0 {
		return res
	}
	res.Remaining = max(0, res.Remaining-req.Cost)
	res.ResetAfter = (index+c.Cells+1)*c.cell() - req.Now
	if commit {
		c.date(w, at)
		cost := min(uint64(req.Cost), MaxCount-used)
		c.advance(w, index, used+cost)
		*c.at(w, index) += cost
	}
	return res
}

// Restore writes into w, which is all zeros, the state with this newest cell, the moment of the
// latest charge and these units, the newest first. There are at most Cells+1 cells, and none before
// the epoch.
func (c *SlidingWindow) Restore(w []uint64, newest, latest int64, cells []uint64) {
	w[cellsIndex], w[cellsLatest] = uint64(newest), uint64(latest)
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
	if ch.Cost > 0 && now <= ch.At {
		c.Settle(w, now, ch, 0)
	}
}

// Settle replaces the cost of a charge by the actual cost, while its cell counts.
func (c *SlidingWindow) Settle(w []uint64, now int64, ch Charge, actual int64) {
	index, used, _, setBack := c.settled(w, now)
	if ch.At == Newest && !setBack {
		c.advance(w, index, used)
		c.giveBack(w, index, uint64(ch.Cost-min(actual, ch.Cost)))
		return
	}
	i := ch.At / c.cell()
	if setBack || index-i > c.Cells || i*c.cell()-now > c.Length {
		return
	}
	if i > index { // a charge that cost nothing did not move the state
		index = i
		_, used, _, _ = c.settled(w, ch.At)
	}
	c.date(w, ch.At)
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

// giveBack takes units out of the cells, from the newest one on.
func (c *SlidingWindow) giveBack(w []uint64, index int64, units uint64) {
	for i := index; i >= max(0, index-c.Cells); i-- {
		cell := c.at(w, i)
		give := min(*cell, units)
		*cell, units = *cell-give, units-give
		w[cellsSum] -= give
	}
}

// setBack reports whether the clock was set back after the state was charged.
func (c *SlidingWindow) setBack(w []uint64, now int64) bool {
	_, _, _, setBack := c.settled(w, now) //nolint:dogsled // nothing else matters
	return setBack
}

// setBackBy reports whether the conversion of from's state would begin so far ahead of now that
// these numbers take the clock for set back.
func (c *SlidingWindow) setBackBy(from *SlidingWindow, w []uint64, now int64) bool {
	_, used, at, _ := from.settled(w, now)
	return used > 0 && !c.alike(from) && at/c.cell()*c.cell()-now > c.Length
}

// alike reports whether the cells of two limits begin and end together.
func (c *SlidingWindow) alike(from *SlidingWindow) bool {
	return c.Length == from.Length && c.Cells == from.Cells
}

// carried returns the units of from's state in the terms of these cells: they leave together with
// the cell of their moment.
func (c *SlidingWindow) carried(w []uint64) carry {
	first := (int64(w[cellsLatest])/c.cell() + c.Cells + 1) * c.cell()
	return carry{units: w[cellsSum], count: uint64(c.Count), first: first, step: c.Length}
}

// Convert writes into w the state that from's state becomes under these numbers. If the cells
// change, the units that are left count as of now, see carry.
func (c *SlidingWindow) Convert(from *SlidingWindow, w, old []uint64, now int64) {
	index, used, at, setBack := from.settled(old, now)
	switch {
	case c.alike(from):
		copy(w, old)
		if setBack {
			c.collapse(w, index, used, at)
		}
		return
	case !setBack:
		used = min(used, c.carried(old).left(at))
	}
	if used > 0 {
		c.collapse(w, at/c.cell(), used, at)
	}
}

// await corrects the numbers of a result that leaves from's state as it is.
func (c *SlidingWindow) await(from *SlidingWindow, w []uint64, req *Request, res *Result) {
	if c.alike(from) {
		return
	}
	index, counted, at, _ := from.settled(w, req.Now)
	carried := c.carried(w)
	used := min(counted, carried.left(at))
	if used == 0 {
		res.ResetAfter = 0
		return
	}
	// until returns when at most room units are left, which are fewer than now.
	until := func(room int64) int64 {
		return min(carried.until(uint64(room)), from.leaves(w, index, counted, uint64(room))) - req.Now
	}
	res.ResetAfter = until(0)
	if res.Reason == Limited {
		res.Remaining = left(c.Count, req.Floor, used)
		res.RetryAfter = until(c.Count - req.need(c.Count, MaxCount) - req.keeps())
	}
}
