package algo_test

import (
	"maps"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// cellsOracle remembers what each cell was charged.
type cellsOracle struct {
	count, length, cells int64
	countDenied          bool

	units   map[int64]int64
	newest  int64
	charges map[int]windowCharge
}

func (o *cellsOracle) cell() int64 { return o.length / o.cells }

func (o *cellsOracle) clone() oracle {
	c := *o
	c.units, c.charges = maps.Clone(o.units), maps.Clone(o.charges)
	return &c
}

// sum counts the units of the cells that a question in a cell sees.
func (o *cellsOracle) sum(cell int64) (n int64) {
	for i, u := range o.units {
		if i >= cell-o.cells && i <= cell {
			n += u
		}
	}
	return n
}

// now returns the cell and the units as of now, the time to reckon from, and
// whether the clock was set back.
func (o *cellsOracle) now(now int64) (cell, used, at int64, setBack bool) {
	cell = now / o.cell()
	if cell >= o.newest {
		return cell, o.sum(cell), now, false
	}
	if start := o.newest * o.cell(); start-now <= o.length {
		return o.newest, o.sum(o.newest), start, false
	}
	return cell, max(o.sum(o.newest), o.count), now, true
}

func (o *cellsOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	_, used, _, _ := o.now(a.Now)
	switch {
	case a.Cost == 0 && (used <= o.count || o.countDenied):
		return true, 0, algo.None
	case a.Cost > 0 && a.Cost > o.count-a.Floor:
		return false, 0, algo.Never
	case a.Cost > 0 && used <= o.count-a.Floor-a.Cost:
		return true, 0, algo.None
	}
	return false, 0, algo.Limited
}

func (o *cellsOracle) commit(a algo.Request, allowed bool, id int) {
	cell, used, at, setBack := o.now(a.Now)
	if setBack {
		o.units, o.newest = map[int64]int64{cell: used}, cell
	}
	if allowed {
		o.charges[id] = windowCharge{a.Cost, at}
	}
	if a.Cost > 0 && (allowed || o.countDenied && !beyond(a, o.count)) {
		o.forget(cell)
		o.units[cell] += a.Cost
	}
}

// forget makes a cell the newest and forgets those that count no more.
func (o *cellsOracle) forget(cell int64) {
	o.newest = cell
	maps.DeleteFunc(o.units, func(i, _ int64) bool { return i < cell-o.cells })
}

func (o *cellsOracle) remaining(a algo.Request) int64 {
	if a.Floor > o.count {
		return 0
	}
	_, used, _, _ := o.now(a.Now)
	return max(0, o.count-a.Floor-used)
}

func (o *cellsOracle) fresh(now int64) bool {
	cell, used, _, _ := o.now(now)
	return used == 0 && cell == now/o.cell()
}

func (o *cellsOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	cell, _, _, setBack := o.now(now)
	i := c.at / o.cell()
	if setBack || cell-i > o.cells || i*o.cell()-now > o.length {
		return
	}
	o.forget(max(cell, i)) // a charge of no cost did not move the state
	o.units[i] = max(0, o.units[i]+actual-c.cost)
}

func (o *cellsOracle) cancel(now int64, id int) {
	if now <= o.charges[id].at {
		o.settle(now, id, 0)
	}
}

func slidingWindow(c *chooser) (algo.Params, oracle, questions) {
	count, period := rateNumbers(c)
	cells := c.one(1, 2, 3, 10, 1+c.below(20), algo.MaxCells)
	if period < 1000 {
		period *= cells
	} else {
		for period%cells != 0 {
			cells--
		}
	}
	return cellsOf(count, period, cells, c.oneIn(2))
}

func cellsOf(count, period, cells int64, denied bool) (algo.Params, oracle, questions) {
	o := &cellsOracle{
		count: count, length: period, cells: cells, countDenied: denied,
		units: map[int64]int64{}, charges: map[int]windowCharge{},
	}
	p := algo.Params{
		Kind: algo.KindSlidingWindow, Capacity: count,
		Cells: algo.SlidingWindow{Count: count, Length: period, Cells: cells, CountDenied: denied},
	}
	return p, o, questions{
		pace: pace{max(1, period/cells), period}, capacity: count,
		floors: true, waits: true, ends: true, back: 5 * period,
	}
}

func TestSlidingWindowEqualsOracle(t *testing.T) {
	law(t, 300, func(t *testing.T, c *chooser) { agree(t, c, slidingWindow) })
}

// TestSlidingWindowOfMostEqualsOracle: more attempts than a state counts.
func TestSlidingWindowOfMostEqualsOracle(t *testing.T) {
	law(t, 150, func(t *testing.T, c *chooser) {
		agree(t, c, func(c *chooser) (algo.Params, oracle, questions) {
			p, o, q := cellsOf(c.one(algo.MaxCount, algo.MaxCount-1, algo.MaxCount/3), 60_000_000, c.one(1, 3, 10), true)
			q.ends = false // a charge to a cell that was counted down gives less back
			return p, o, q
		})
	})
}

func FuzzSlidingWindow(f *testing.F) { fuzz(f, slidingWindow) }
