package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// The garbage that may accumulate before it is collected, beside as much as there is live memory without the states: with
// few states, and with many.
const (
	mostGarbage  = 32 << 20
	leastGarbage = 8 << 20
)

// pacer sets when the collector runs, and when the heap returns unused memory to the system. Usually a heap doubles
// between two collections. For a server with few keys that would be a hundred collections a second. For one with many
// keys, garbage would take as much memory as the states, of which a collection reads nothing.
type pacer struct {
	states  func() int64 // the bytes of the heap that a collection need not read
	percent int
	limit   int64
	stopped atomic.Bool
}

// cycle is garbage as soon as it is made: the collection that finds it calls the pacer.
type cycle struct{ pacer *pacer }

// paceCollector paces the collector until stop is called. If the user has set GOGC or GOMEMLIMIT, only these count.
func paceCollector(states func() int64) (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	p := &pacer{states: states}
	p.pace()
	return func() { p.stopped.Store(true) }
}

// pace sets when the next collection runs, and comes back after it.
func (p *pacer) pace() {
	if p.stopped.Load() {
		return
	}
	live, beside := heap()
	percent, limit := pace(live, beside, p.states())
	if percent != p.percent {
		debug.SetGCPercent(percent)
	}
	if limit-p.limit > limit/64 || p.limit-limit > limit/64 {
		debug.SetMemoryLimit(limit)
		p.limit = limit
	}
	p.percent = percent
	runtime.AddCleanup(&cycle{p}, (*pacer).pace, p)
}

// pace returns by how many percent a heap with these live bytes may grow, when so many of them are states, and how much
// memory the program may have in all. Beyond that, it returns unused memory to the system first. The heap may always grow
// as far as the percentage says, so the limit never makes the collector run more often.
func pace(live, beside, states int64) (percent int, limit int64) {
	live = max(live, 1<<20)
	more := max(0, live-states) + max(leastGarbage, mostGarbage-states/2)
	percent = int(max(1, (100*more+live-1)/live))
	goal := live + live/100*int64(percent)
	return percent, goal + goal/32 + beside + 4<<20
}

// heap returns what the last collection has found in use, and the memory of the runtime beside the heap.
func heap() (live, beside int64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	n := func(i int) int64 { return int64(s[i].Value.Uint64()) }
	return n(0), n(1) - n(2) - n(3) - n(4) - n(5)
}
