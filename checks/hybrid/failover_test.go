package hybrid

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestFailoverAddsOneLimit lets a replica take over that has missed the last grants, reports and exact
// decisions. The new master's grants stay within one limit, and so do the old master's, together with
// whatever of them is spent later. So a failover adds one limit, and no more.
func TestFailoverAddsOneLimit(t *testing.T) {
	t.Parallel()
	for range redistest.Times(t, 1) {
		failoverAddsOneLimit(t)
	}
}

func failoverAddsOneLimit(t *testing.T) {
	t.Helper()
	s := redistest.StartSentinels(t)
	c := newCrew(t, fleet.Route{Addrs: s.Addrs(), Master: redistest.SentinelName})
	c.extra = func(terms fleet.Terms) float64 { return float64(terms.Capacity()) }
	ctx := redistest.Within(t, 2*time.Minute)
	master, replica := s.Nodes[0], s.Nodes[1]
	c.pass(400 * time.Millisecond)
	c.must(replica.Pause())
	_, err := master.Do(ctx, "CLIENT", "KILL", "TYPE", "replica")
	c.must(err)
	c.pass(300 * time.Millisecond) // lost by the failover
	c.must(master.Kill())
	c.must(replica.Resume())
	_, err = s.WaitFailover(ctx, master)
	c.must(err)
	c.waitAnswers()
	healed := c.clock.Now()
	shown := c.clockOf(replica)
	c.recovers(healed)
	c.finish()
	all := c.spends()
	c.bounded(all, shown)
	redistest.CheckTTL(t, replica)
}

// waitAnswers returns when the server answers all processes. A process whose keys are cold makes no claims, but exact
// decisions, which the server answers too.
func (c *crew) waitAnswers() {
	c.Helper()
	begun := time.Now()
	for _, p := range c.processes {
		first, err := p.Stats()
		c.must(err)
		for {
			c.pass(20 * time.Millisecond)
			now, err := p.Stats()
			c.must(err)
			answered := now.Calls > first.Calls+1 && now.Decided > first.Decided || now.Exact > first.Exact+1
			if answered && now.Errors == first.Errors {
				break
			}
			if now.Errors != first.Errors {
				first = now // count from the last error
			}
			if time.Since(begun) > redistest.Soon {
				c.Fatalf("the server does not answer a process: %s", now.FirstError)
			}
		}
	}
}
