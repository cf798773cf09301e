package describe

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Hybrid describes the most and the least that a hybrid limit admits for a key, as in
// "never more than 1000 + 100/s·t; up to 50 may be left unused, and what the limit gives in 100ms". It is empty
// for an exact limit.
func Hybrid(l *sluice.Limit) string {
	h := l.Hybrid()
	if h == nil {
		return ""
	}
	text := "never more than " + most(l, h)
	if h.Credit > 0 {
		times := ""
		if _, ok := l.Algorithm().(sluice.SlidingCounter); ok {
			times = "2 × " // once in each of the two windows that a period reaches into
		}
		text += fmt.Sprintf(", and %sn × %d (credit) for n servers", times, h.Credit)
	}
	text += fmt.Sprintf("; up to %d may be left unused", l.Escrow())
	held := heldBack
	switch l.Algorithm().(type) {
	case sluice.SlidingWindow, sluice.SlidingCounter, sluice.SlidingLog:
		held += h.Sync * 5 / 4 // spends count from their report, so that they leave the window later
	}
	if float64(l.Rate().Count())*held.Seconds() >= l.Rate().Period().Seconds() {
		text += fmt.Sprintf(", and what the limit gives in %v", held)
	}
	return text
}

// heldBack is for how long a process may keep a denial, or leave units free for other processes. It matters only for a
// limit that gives a unit in this time.
const heldBack = 100 * time.Millisecond

// most describes the most that a hybrid limit admits for a key in a time, without credit.
func most(l *sluice.Limit, h *sluice.Hybrid) string {
	units := fmt.Sprint(l.Capacity())
	if h.Overdraft > 0 {
		units += fmt.Sprintf(" + %d (overdraft)", h.Overdraft)
	}
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		return fmt.Sprintf("%s + %v·t", units, a.Rate)
	case sluice.FixedWindow:
		if a.Calendar != 0 {
			return fmt.Sprintf("%s in each calendar %v", units, a.Calendar)
		}
		return fmt.Sprintf("%s in each %s", units, period(a.Rate.Period()))
	case sluice.SlidingCounter:
		return fmt.Sprintf("%d in any %s", 2*(a.Rate.Count()+h.Overdraft)-1, period(a.Rate.Period()))
	default:
		return fmt.Sprintf("%s in any %s", units, period(l.Rate().Period()))
	}
}

// ifRemote returns a text about a store in Redis; empty for a store in this process.
func ifRemote(text string, remote bool) string {
	if remote {
		return text
	}
	return ""
}
