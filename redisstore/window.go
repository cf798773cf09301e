package redisstore

import (
	_ "embed" // the scripts
	"hash/fnv"
	"time"

	"github.com/sluicehq/sluice/algo"
)

var (
	//go:embed scripts/window.lua
	windowScript string
	//go:embed scripts/window_quick.lua
	windowQuick string
)

var windowKind = kind{
	word:    "fixed",
	script:  windowScript,
	quick:   windowQuick,
	numbers: windowNumbers,
	read:    readWindow,
}

// The forms of windows in the scripts, where those of a calendar follow.
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

// calendarID returns what tells a calendar from others: a state that was kept under
// another one is converted. Zones are told apart by their names, and by their offsets
// in a winter and a summer, for a fixed zone and that of the computer may have any name.
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

// readWindow reads the end of a window and what it has counted; the calendar of p
// knows when it began.
func readWindow(r *reader, _ *algo.Params) (algo.State, []uint64) {
	if !r.holds(algo.KindFixedWindow) {
		return algo.State{}, nil
	}
	end, used := r.count(), r.count()
	return algo.State{T: end, V: uint64(used)}, nil
}
