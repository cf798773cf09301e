package hybrid

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestSlotsMove moves the slot of the key from master to master while processes hold grants: the escrow
// moves with the state, and the bound is what it is without the moves.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for range redistest.Times(t, 1) {
		slotsMove(t, cluster)
	}
}

func slotsMove(t *testing.T, cluster *redistest.Cluster) {
	t.Helper()
	c := newCrew(t, fleet.Route{Addrs: cluster.Addrs()})
	ctx := redistest.Within(t, 2*time.Minute)
	slot, err := cluster.Slot(ctx, "{key}")
	c.must(err)
	c.pass(500 * time.Millisecond)
	for _, to := range cluster.Nodes {
		from, err := cluster.Owner(ctx, slot)
		c.must(err)
		if from == to {
			continue
		}
		m, err := cluster.BeginMigration(ctx, slot, to)
		c.must(err)
		c.pass(100 * time.Millisecond) // the slot is open at both
		for {
			moved, err := m.Move(ctx, 2)
			c.must(err)
			if moved == 0 {
				break
			}
			c.pass(20 * time.Millisecond)
		}
		c.must(m.End(ctx))
		c.pass(300 * time.Millisecond)
	}
	owner, err := cluster.Owner(ctx, slot)
	c.must(err)
	healed := c.clock.Now()
	shown := c.clockOf(owner)
	c.recovers(healed)
	c.finish()
	all := c.spends()
	c.bounded(all, shown)
	redistest.CheckTTL(t, cluster.Nodes...)
}
