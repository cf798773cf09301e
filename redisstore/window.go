package redisstore

import (
	"hash/fnv"
	"time"

	"github.com/sluicehq/sluice/algo"
)

var windowKind = kind{
	word:    "fixed",
	script:  "window",
	quick:   "window_quick",
	numbers: windowNumbers,
	read:    readWindow,
}

// The forms of windows in the scripts. Calendars have the numbers from formCalendar on.
const (
	formAligned = iota
	formOpened
	formCalendar
)

func windowNumbers(p *algo.Params) []int64 {
	w, form := &p.Fixed, int64(formAligned)
	switch {
	case w.Calendar != nil:
		form = formCalendar + calendarID(w.Calendar)
	case w.Opened:
		form = formOpened
	}
	return []int64{w.Count, w.Length, form, denied(p)}
}

// calendarID returns a number that distinguishes a calendar from others: scripts convert a
// state that was kept under another calendar. The number depends on the zone's name, and on
// its offsets in January and in July. The name is not enough, because a fixed zone and the
// local zone may have any name.
func calendarID(c *algo.Calendar) int64 {
	id := fnv.New32a()
	_, _ = id.Write([]byte{byte(c.Unit)})
	_, _ = id.Write([]byte(c.Zone.String()))
	for _, month := range []time.Month{time.January, time.July} {
		_, offset := time.Date(2025, month, 1, 0, 0, 0, 0, time.UTC).In(c.Zone).Zone()
		_, _ = id.Write(appendInt(nil, int64(offset)))
	}
	return int64(id.Sum32())
}

// readWindow reads the end of a window and its count. It does not read the begin, which a
// calendar computes from the end.
func readWindow(r *reader, _ *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindFixedWindow) {
		return algo.State{}, nil
	}
	end, used := r.count(), r.count()
	return algo.State{T: end, V: uint64(used)}, nil
}

var cellsKind = kind{
	word:   "sliding",
	script: "cells",
	quick:  "cells_quick",
	numbers: func(p *algo.Params) []int64 {
		return []int64{p.Cells.Count, p.Cells.Length, p.Cells.Cells, denied(p)}
	},
	read: readCells,
}

// readCells reads the number of the newest cell, and the units of cells, the newest first.
func readCells(r *reader, p *algo.Params) (algo.State, []uint64) {
	words := make([]uint64, p.Cells.Words())
	if !r.holds(algo.KindSlidingWindow) {
		return algo.State{}, words
	}
	newest, n := r.count(), r.list()
	if n > int(p.Cells.Cells)+1 || newest < int64(n)-1 || newest > exact/(p.Cells.Length/p.Cells.Cells) {
		r.fail()
		return algo.State{}, words
	}
	cells := make([]uint64, n)
	for i := range cells {
		cells[i] = uint64(r.count())
	}
	p.Cells.Restore(words, newest, cells)
	return algo.State{}, words
}

var counterKind = kind{
	word:    "counter",
	script:  "counter",
	quick:   "counter_quick",
	numbers: func(p *algo.Params) []int64 { return []int64{p.Counter.Count, p.Counter.Length, denied(p)} },
	read:    readCounter,
}

// readCounter reads the number of a window, the units of the window before, and its own.
func readCounter(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindSlidingCounter) {
		return algo.State{}, nil
	}
	index, prev, cur := r.count(), r.count(), r.count()
	if index > exact/p.Counter.Length || prev >= 1<<40 || cur >= 1<<40 {
		r.fail()
		return algo.State{}, nil
	}
	return p.Counter.Restore(index, uint64(prev), uint64(cur)), nil
}
