package replay

import "math"

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

	last, from int64 // the cell to which add has added last, and its time; never if it is not known
}

const never = math.MinInt64 / 2

// cell returns the number of the cell of a time.
func (s *series) cell(at int64) int64 {
	width := steps[s.step] * micros
	n := at / width
	if at%width < 0 {
		n--
	}
	return n
}

// add counts n at a time in microseconds of Unix time. A time before the first cell counts there.
func (s *series) add(at, n int64) {
	if uint64(at-s.from) < uint64(steps[s.step]*micros) && s.cells != nil {
		s.cells[s.last] += n
		return
	}
	if s.cells == nil {
		s.first = s.cell(at)
	}
	i := s.cell(at) - s.first
	for i >= mostCells && s.step+1 < len(steps) {
		s.widen()
		i = s.cell(at) - s.first
	}
	s.from = (s.first + i) * steps[s.step] * micros
	i = min(max(0, i), mostCells-1)
	s.last = i
	for int64(len(s.cells)) <= i {
		s.cells = append(s.cells, 0)
	}
	s.cells[i] += n
}

// widen joins cells to cells of the next width.
func (s *series) widen() {
	ratio := steps[s.step+1] / steps[s.step]
	old, first := s.cells, s.first
	s.step++
	s.first = floorDiv(first, ratio)
	s.cells, s.from = nil, never
	for i, n := range old {
		at := floorDiv(first+int64(i), ratio) - s.first
		for int64(len(s.cells)) <= at {
			s.cells = append(s.cells, 0)
		}
		s.cells[at] += n
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// over returns the cells of a width from a first cell on, n of them.
func (s *series) over(step int, first int64, n int) []int64 {
	all := make([]int64, n)
	wide := *s
	for wide.step < step && wide.cells != nil {
		wide.widen()
	}
	for i, c := range wide.cells {
		if at := wide.first + int64(i) - first; at >= 0 && at < int64(n) {
			all[at] += c
		}
	}
	return all
}
