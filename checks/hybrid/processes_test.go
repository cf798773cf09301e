package hybrid

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestProcessesAreKilledAndStopped kills processes, stops others for longer than a grant's life, and
// starts new ones. Then it stops the server for as long. All processes together never admit more than
// the limit, and soon after the end of the faults they use the whole limit again.
func TestProcessesAreKilledAndStopped(t *testing.T) {
	t.Parallel()
	for range redistest.Times(t, 1) {
		processesAreKilledAndStopped(t)
	}
}

func processesAreKilledAndStopped(t *testing.T) {
	t.Helper()
	server := redistest.Start(t)
	c := newCrew(t, fleet.Route{Addrs: []string{server.Addr()}})
	c.pass(300 * time.Millisecond) // units are free, so all processes have some in hand
	for _, i := range []int{1, 2} {
		c.must(c.processes[i].Pause())
	}
	c.pass(crewLife)
	for _, i := range []int{0, 5} { // in the middle of their grants
		c.must(c.processes[i].Kill())
	}
	c.pass(crewPeriod / 2)
	c.replace(0)
	// The grants in hand have ended, and the windows no longer have what the server then counted as used.
	c.pass(crewPeriod/2 + 2*crewSync)
	for _, i := range []int{1, 2} {
		c.must(c.processes[i].Resume())
	}
	c.replace(5)
	c.pass(300 * time.Millisecond)
	c.must(server.Pause())
	c.pass(crewLife + 2*crewSync)
	c.must(server.Resume())
	healed := c.clock.Now()
	shown := c.clockOf(server)
	c.recovers(healed)
	c.finish()
	all := c.spends()
	c.bounded(all, shown)
	redistest.CheckTTL(t, server)
}
