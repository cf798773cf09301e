package hybrid

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestServerClocks calls a server whose clock is far from the clocks of the processes, runs too fast and
// too slow, and jumps forward and back. The laws hold on the server's clock. Only a jump forward by more
// than a grant's life adds something: the server has booked the grants as used long ago, and processes
// spend what they hold of them. That is the escrow's cap for each jump.
func TestServerClocks(t *testing.T) {
	t.Parallel()
	for range redistest.Times(t, 1) {
		skewedClocks(t)
	}
}

func skewedClocks(t *testing.T) {
	t.Helper()
	server := redistest.StartSkewed(t)
	skews := []struct {
		skew  string
		jumps float64 // forward
	}{
		{"+400d", 0},
		{"+400d x1.001", 0},
		{"+400d x0.999", 0},
		{"+34560003s", 1}, // three seconds more
		{"+34560002s", 0}, // and one less
	}
	if err := server.Set(skews[0].skew); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t, fleet.Route{Addrs: []string{server.Addr()}})
	shown := c.watch(server.Server)
	jumps := 0.0
	for _, s := range skews {
		c.must(server.Set(s.skew))
		c.pass(400 * time.Millisecond)
		jumps += s.jumps
	}
	c.pass(time.Second) // until the clock is where it was before it went back
	healed := c.clock.Now()
	c.recovers(healed)
	c.must(shown.end())
	c.finish()
	c.extra = func(terms fleet.Terms) float64 {
		limit, err := terms.Limit()
		c.must(err)
		// While the clock is where it has been before, the server gives nothing for the time between two
		// calls: up to 20 ms.
		return jumps*float64(limit.Escrow()) + terms.PerSecond()/50
	}
	all := c.spends()
	c.bounded(all, shown)
	redistest.CheckTTL(t, server.Server)
}
