package redisstore

import (
	"hash/fnv"

	"github.com/sluicehq/sluice/internal/algo"
)

// windowKind keeps the time to live of windows: see docs/adr/0047.
var windowKind = kind{
	word:    "fixed",
	script:  "window",
	quick:   "window_quick",
	numbers: windowNumbers,
	read:    readWindow,
	origin:  origin{skipInts(4), windowParams},
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
// state that was kept under another calendar.
func calendarID(c *algo.Calendar) int64 {
	id, zone := fnv.New32a(), c.ZoneID()
	_, _ = id.Write([]byte{byte(c.Unit)})
	_, _ = id.Write([]byte(zone.Name))
	_, _ = id.Write(appendInt(appendInt(nil, int64(zone.Winter)), int64(zone.Summer)))
	return int64(id.Sum32())
}

// readWindow reads the end of a window, its count and the time of the latest charge. It skips
// the begin: a calendar computes it from the end.
func readWindow(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindFixedWindow) {
		return algo.State{}, nil
	}
	end, used, latest := r.count(), r.count(), r.count()
	if p.Fixed.Calendar != nil {
		r.count()
	}
	return p.Fixed.Restore(end, uint64(used), latest), nil
}

var cellsKind = kind{
	word:   "sliding",
	script: "cells",
	quick:  "cells_quick",
	numbers: func(p *algo.Params) []int64 {
		return []int64{p.Cells.Count, p.Cells.Length, p.Cells.Cells, denied(p)}
	},
	read:   readCells,
	origin: origin{skipCells, cellsParams},
}

// skipCells skips the cells of a view.
func skipCells(r *reader) {
	r.ints(3)
	for range r.list() {
		if r.int(); r.err != nil {
			return
		}
	}
}

// readCells reads the number of the newest cell, the time of the latest charge, and the units of
// cells, the newest first.
func readCells(r *reader, p *algo.Params) (algo.State, []uint64) {
	words := make([]uint64, p.Cells.Words())
	if !r.holds(algo.KindSlidingWindow) {
		return algo.State{}, words
	}
	newest, latest := r.count(), r.count()
	n := r.list()
	if n > int(p.Cells.Cells)+1 || newest < int64(n)-1 || newest > exact/(p.Cells.Length/p.Cells.Cells) {
		r.fail()
		return algo.State{}, words
	}
	cells := make([]uint64, n)
	for i := range cells {
		cells[i] = uint64(r.count())
	}
	p.Cells.Restore(words, newest, latest, cells)
	return algo.State{}, words
}

var counterKind = kind{
	word:    "counter",
	script:  "counter",
	quick:   "counter_quick",
	numbers: func(p *algo.Params) []int64 { return []int64{p.Counter.Count, p.Counter.Length, denied(p)} },
	read:    readCounter,
	origin:  origin{skipInts(5), counterParams},
}

// readCounter reads the number of a window, the units of the window before and its own, and the
// time of the latest charge.
func readCounter(r *reader, p *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindSlidingCounter) {
		return algo.State{}, nil
	}
	index, prev, cur, latest := r.count(), r.count(), r.count(), r.count()
	if index > exact/p.Counter.Length || prev >= 1<<40 || cur >= 1<<40 {
		r.fail()
		return algo.State{}, nil
	}
	return p.Counter.Restore(index, uint64(prev), uint64(cur), latest), nil
}
