package hybrid

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestClocksDrift lets the clocks of the processes run a hundredth slower than the server's, and a hundredth faster.
// The grants live for 400 ms, so the drift of 4 ms is within the margin of 1/128 and 1 ms. The laws hold on the
// server's clock with nothing added, and the limits are used.
func TestClocksDrift(t *testing.T) { //nolint:tparallel // each rate takes the machine for itself
	t.Parallel()
	for _, rate := range []string{"1.01", "0.99"} {
		t.Run(rate, func(t *testing.T) {
			server := redistest.StartSkewed(t)
			if err := server.Set("+0s x" + rate); err != nil {
				t.Fatal(err)
			}
			c := newCrew(t, fleet.Route{Addrs: []string{server.Addr()}})
			shown := c.watch(server.Server)
			c.pass(300 * time.Millisecond)
			c.recovers(c.clock.Now())
			c.finish()
			c.must(shown.end())
			all := c.spends()
			for i := range all { // the server's time is known from the first sample on
				all[i] = slices.DeleteFunc(all[i], func(s fleet.Spend) bool { return s.From < shown.all[0].after })
			}
			c.bounded(all, shown)
		})
	}
}
