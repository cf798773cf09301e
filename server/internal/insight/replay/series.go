package replay

import "slices"

const micros = 1_000_000

// steps are the widths of the cells of a series, in seconds. Each divides the next.
var steps = [...]int64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400, 56 * 86400, 560 * 86400}

// mostCells bounds the cells of a series.
const mostCells = 240

// series counts over time, in cells. If it has too many, each becomes wider.
type series struct {
	first int64 // the number of the first cell, counted from 1970
	step  int   // the index of the width
	cells []int64

	last *int64 // the cell to which add has added last; nil if it is not known
	from int64  // its time
}

// add counts n at a time in microseconds of Unix time.
func (s *series) add(at, n int64) {
	if s.last == nil || uint64(at-s.from) >= uint64(steps[s.step]*micros) {
		s.find(at)
	}
	*s.last += n
}

// find makes the cell of a time the last one.
func (s *series) find(at int64) {
	width := steps[s.step] * micros
	number := floorDiv(at, width)
	if s.cells == nil {
		s.first = number
	}
	end := max(number+1, s.first+int64(len(s.cells)))
	if end-min(number, s.first) > mostCells && s.step+1 < len(steps) {
		s.widen()
		s.find(at)
		return
	}
	if number < s.first {
		s.cells = slices.Insert(s.cells, 0, make([]int64, s.first-number)...)
		s.first = number
	}
	for int64(len(s.cells)) < end-s.first {
		s.cells = append(s.cells, 0)
	}
	s.last, s.from = &s.cells[number-s.first], number*width
}

// widen joins cells to cells of the next width.
func (s *series) widen() {
	wide := series{step: s.step + 1}
	wide.absorb(s)
	*s = wide
}

// absorb adds another series.
func (s *series) absorb(o *series) {
	for s.step < o.step {
		s.widen()
	}
	for i, n := range o.cells {
		s.add((o.first+int64(i))*steps[o.step]*micros, n)
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// along returns the cells of the series at the cells of another one, which are as wide or wider.
func (s series) along(axis *series) []int64 {
	all := make([]int64, len(axis.cells))
	for s.step < axis.step {
		s.widen()
	}
	for i, n := range s.cells {
		if at := s.first + int64(i) - axis.first; at >= 0 && at < int64(len(all)) {
			all[at] += n
		}
	}
	return all
}
