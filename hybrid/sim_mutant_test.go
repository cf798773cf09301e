package hybrid

import (
	"testing"

	"github.com/sluicehq/sluice/internal/granttest"
)

// mostSeeds is how many seeds a defect may survive.
const mostSeeds = 300

// caught fails unless the simulation notices a defect of the server, or of the processes.
func caught(t *testing.T, f granttest.Fault, tr trick) {
	t.Helper()
	for seed := uint64(1); seed <= mostSeeds; seed++ {
		if w, problem := play(t, newScenario(seed), f, tr); problem != "" {
			t.Logf("seed %d: %s", seed, w.problem)
			return
		}
	}
	t.Errorf("%d seeds do not notice the defect", mostSeeds)
}

// TestSimulationNotices injects the defects that a server, or a script, might have, and the defects that a
// process might have.
func TestSimulationNotices(t *testing.T) {
	for f := granttest.Correct + 1; f < granttest.Faults; f++ {
		t.Run("a server that "+f.String(), func(t *testing.T) { caught(t, f, noTrick) })
	}
	for tr := noTrick + 1; tr < tricks; tr++ {
		t.Run("a process that "+tr.String(), func(t *testing.T) { caught(t, granttest.Correct, tr) })
	}
}
