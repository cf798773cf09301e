package cli

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestCollectorSettingsOfUsersWin: users who set how much memory the program takes get that.
func TestCollectorSettingsOfUsersWin(t *testing.T) {
	for name, want := range map[string]bool{"": true, "GOGC": false, "GOMEMLIMIT": false} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if name != "" {
				t.Setenv(name, "off")
			}
			before := debug.SetGCPercent(77)
			defer func() {
				debug.SetGCPercent(before)
				debug.SetMemoryLimit(math.MaxInt64)
			}()
			stop := paceCollector(func() int64 { return 0 })
			defer stop()
			if got := debug.SetGCPercent(77) != 77; got != want {
				t.Errorf("with %q the collector is paced: %t", name, got)
			}
		})
	}
}

// TestTheCollectorLeavesRoomForStates: a heap may grow by what is not states, and by some more; each collection sets it again.
func TestTheCollectorLeavesRoomForStates(t *testing.T) {
	const mib = 1 << 20
	for _, row := range []struct{ live, states, least, most int64 }{
		{4 * mib, 0, 40 * mib, 41 * mib},
		{4 * mib, 1 * mib, 38 * mib, 40 * mib},
		{260 * mib, 256 * mib, 272 * mib, 276 * mib},
		{4100 * mib, 4096 * mib, 4116 * mib, 4160 * mib},
		{500 * mib, 100 * mib, 908 * mib, 916 * mib}, // something else has filled the heap
		{100 * mib, 300 * mib, 108 * mib, 110 * mib}, // the states have grown since the collection
		{0, 0, 33 * mib, 35 * mib},
	} {
		percent, limit := pace(row.live, 10*mib, row.states)
		goal := max(row.live, mib) + max(row.live, mib)*int64(percent)/100
		if goal < row.least || goal > row.most || limit < goal+goal*31/1000+10*mib || limit > goal+goal/10+16*mib {
			t.Errorf("%+v: %d %%, up to %d MiB, and a limit of %d MiB", row, percent, goal/mib, limit/mib)
		}
	}
	paced := make(chan struct{}, 100)
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	defer func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(math.MaxInt64)
	}()
	defer paceCollector(func() int64 { paced <- struct{}{}; return 0 })()
	for range 3 {
		<-paced
		runtime.GC()
	}
}
