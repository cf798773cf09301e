package oracle

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// Renumber returns a state under the numbers of a fresh one of the same algorithm. Used units stay used.
//
// A bucket refills at the higher of both rates from its latest charge on. What it lacks beyond its burst is a wait, and
// keeps its time under a higher rate. Windows and logs whose periods differ count all units as used at the latest
// charge. They give back no more than the new count in each new period, and no less than under the old numbers.
func Renumber(s, fresh State, now int64) State {
	switch s := s.(type) {
	case Bucket:
		return s.renumber(fresh.(Bucket), now)
	case Window:
		return s.renumber(fresh.(Window), now)
	case Cells:
		return s.renumber(fresh.(Cells), now)
	case Counter:
		return s.renumber(fresh.(Counter), now)
	case Log:
		return s.renumber(fresh.(Log), now)
	}
	panic(fmt.Sprintf("%T has no grants", s))
}

func (b Bucket) renumber(f Bucket, now int64) Bucket {
	burst := whole(b.burst)
	tokens, at := b.refilled(now)
	missing, lent := sub(burst, tokens), b.lent && less(tokens, burst)
	fast := less(b.rate, f.rate) && b.last-now <= b.period
	if fast {
		missing, lent = sub(burst, b.tokens), lent || b.tokens.Sign() < 0
	}
	base := burst
	if b.lent {
		base = new(big.Rat)
	}
	if less(b.rate, f.rate) && less(base, missing) {
		missing = add(base, quo(mul(sub(missing, base), f.rate), b.rate))
	}
	den := new(big.Rat).SetInt(f.rate.Denom())
	missing = quo(new(big.Rat).SetInt(ceil(mul(missing, den))), den) // in whole ticks
	if fast {
		missing = larger(new(big.Rat), sub(missing, mul(whole(at-b.last), f.rate)))
	}
	f.tokens, f.last, f.lent = sub(whole(f.burst), missing), at, lent && missing.Sign() > 0
	return f
}

// left returns how many of some units other numbers still count: count of them come back at first, and count
// more after each step.
func left(units, count, first, step, now int64) int64 {
	if now < first {
		return units
	}
	return max(0, units-((now-first)/step+1)*count)
}

func (w Window) renumber(f Window, now int64) Window {
	current, setBack := w.at(now)
	if !setBack && w.length == f.length && w.opened == f.opened && samePeriods(w.periods, f.periods) {
		w.count, w.countDenied = f.count, f.countDenied
		return w
	}
	at, used := now, current.used
	if w.open && now < w.end && !setBack {
		at = max(now, w.start)
	}
	if used == 0 {
		return f
	}
	start, end := f.period(at)
	if !setBack {
		first, by := w.latest()+f.length, at
		switch {
		case f.periods != nil:
			first, by = w.latest()+1, start
		case !f.opened:
			first -= w.latest() % f.length
		}
		used = min(used, left(w.used, f.count, first, f.length, by))
	}
	if used == 0 {
		return f
	}
	f.open, f.start, f.end, f.used, f.last = true, start, end, used, at
	return f
}

// latest returns the time of the latest charge, or slightly later: a state has few bits for it.
func (w Window) latest() int64 {
	unit := int64(1)
	for unit<<19 <= w.length {
		unit *= 2
	}
	return w.end - (w.end-w.last)/unit*unit
}

func samePeriods(a, b *[]int64) bool {
	return a == b || a != nil && b != nil && slices.Equal(*a, *b)
}

func (c Cells) renumber(f Cells, now int64) Cells {
	cell, used, at, setBack := c.at(now)
	alike := c.length == f.length && c.cells == f.cells
	switch {
	case alike && !setBack:
		f.units, f.newest, f.last = maps.Clone(c.units), c.newest, c.last
		return f
	case !setBack:
		first := (c.last/f.cell() + f.cells + 1) * f.cell()
		used = min(used, left(sum(c.units), f.count, first, f.length, at))
		cell = at / f.cell()
	case !alike:
		cell = at / f.cell()
	}
	if used > 0 {
		f.units, f.newest, f.last = map[int64]int64{cell: used}, cell, at
	}
	return f
}

func sum(units map[int64]int64) (all int64) {
	for _, n := range units {
		all += n
	}
	return all
}

func (c Counter) renumber(f Counter, now int64) Counter {
	_, prev, cur, at, setBack := c.at(now)
	if c.length == f.length && !setBack {
		f.units, f.newest, f.last = maps.Clone(c.units), c.newest, c.last
		return f
	}
	used := max(cur, c.used(now))
	if setBack {
		used = cur
	} else if prev+cur > 0 {
		start := c.newest * c.length
		into := max(0, c.last-start)
		into += 63 - into%64 // a state has few bits for the latest charge
		covered := Rat(c.length-min(into, c.length), c.length)
		units := c.units[c.newest] + Up(mul(covered, whole(c.units[c.newest-1])))
		used = min(used, left(units, f.count, ((start+into)/f.length+2)*f.length, f.length, at))
	}
	if used > 0 {
		f.newest, f.last = at/f.length, at
		f.units = map[int64]int64{f.newest: min(used, mostCounted)}
	}
	return f
}

func (l Log) renumber(f Log, now int64) Log {
	counted, at, setBack := l.at(now)
	switch {
	case setBack:
		f.entries = []entry{{max(units(l.entries), f.count), at}}
	case f.length >= l.length:
		f.entries = slices.Clone(counted)
	case len(counted) > 0:
		last := l.entries[len(l.entries)-1].at
		if n := min(units(counted), left(units(l.entries), f.count, last+f.length, f.length, at)); n > 0 {
			f.entries = []entry{{n, max(last, at-min(f.interval, f.length-1))}}
		}
	}
	return f
}

// SameNumbers reports whether two states are of limits with the same numbers.
func SameNumbers(a, b State) bool {
	switch a := a.(type) {
	case Bucket:
		b := b.(Bucket)
		return a.burst == b.burst && a.debt == b.debt && a.rate.Cmp(b.rate) == 0 && a.period == b.period
	case Window:
		b := b.(Window)
		return a.count == b.count && a.length == b.length && a.opened == b.opened && a.countDenied == b.countDenied && samePeriods(a.periods, b.periods)
	case Cells:
		b := b.(Cells)
		return a.count == b.count && a.length == b.length && a.cells == b.cells && a.countDenied == b.countDenied
	case Counter:
		b := b.(Counter)
		return a.count == b.count && a.length == b.length && a.countDenied == b.countDenied
	case Log:
		b := b.(Log)
		return a.count == b.count && a.length == b.length && a.interval == b.interval && a.countDenied == b.countDenied
	}
	panic(fmt.Sprintf("%T has no grants", a))
}

// setBack reports whether the clock was set back so far that a state has lost its time.
func setBack(s State, now int64) (back bool) {
	switch s := s.(type) {
	case Bucket:
		return s.last-now > s.period
	case Window:
		_, back = s.at(now)
	case Cells:
		_, _, _, back = s.at(now)
	case Counter:
		_, _, _, _, back = s.at(now)
	case Log:
		_, _, back = s.at(now)
	}
	return back
}

// renumbered is a state that is kept under its own numbers, seen under other ones. What it has left at a later time
// follows from the state as it is kept.
type renumbered struct{ kept, fresh State }

func (s renumbered) at(now int64) State { return Renumber(s.kept, s.fresh, now) }

// Allows implements State.
func (s renumbered) Allows(r Request) (bool, int64, Reason) { return s.at(r.Now).Allows(r) }

// Take implements State. Only an admission gives a state other numbers.
func (s renumbered) Take(r Request, allowed bool) (State, Charge) {
	if t := s.at(r.Now); r.Cost > 0 && (allowed || s.moves(r.Now)) {
		return t.Take(r, allowed)
	}
	_, c := s.at(r.Now).Take(r, allowed)
	return s, c
}

// moves reports whether a denial too gives the state other numbers: it has lost its time.
func (s renumbered) moves(now int64) bool { return setBack(s.kept, now) || setBack(s.at(now), now) }

// Remaining implements State.
func (s renumbered) Remaining(r Request) int64 { return s.at(r.Now).Remaining(r) }

// Fresh implements State.
func (s renumbered) Fresh(now int64) bool { return s.at(now).Fresh(now) }

// Settle implements State.
func (s renumbered) Settle(now int64, c Charge, actual int64) State {
	return s.at(now).Settle(now, c, actual)
}

// Cancel implements State.
func (s renumbered) Cancel(now int64, c Charge) State { return s.at(now).Cancel(now, c) }

// Equal implements State.
func (s renumbered) Equal(o State) bool { return s.kept.Equal(o) }
