package hybrid

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

const (
	rolloutLarge  = 4000 // units a second, and the burst
	rolloutSmall  = 100
	rolloutDemand = 700 // requests a second to each process
	rolloutSpan   = 500 * time.Millisecond
)

// TestProcessesRollOut gives buckets numbers that are 40 times smaller, and larger, in one process, seconds later in another one, and
// never in a third one. The clients request less than the larger numbers give. So while both are in force, each process
// admits what the smaller numbers give it, and more, except for a tenth of the time: exact limits do. The units that processes
// hold with the larger numbers once were more than the whole smaller capacity, and a process with the smaller numbers admitted
// nothing. Package hybrid has this test under virtual time, for all algorithms.
func TestProcessesRollOut(t *testing.T) {
	t.Parallel()
	for range redistest.Times(t, 1) {
		rollsOut(t)
	}
}

func rollsOut(t *testing.T) {
	t.Helper()
	server := redistest.Start(t)
	c := &crew{T: t}
	limits := [2][]fleet.Terms{} // before and after
	for i, name := range []string{"lowered", "raised"} {
		counts := [2]int64{rolloutLarge, rolloutSmall}
		for turn := range limits {
			terms := fleet.Terms{Name: name, Algorithm: "bucket", Count: counts[(i+turn)%2], Period: time.Second, Hybrid: &sluice.Hybrid{}}
			limits[turn] = append(limits[turn], terms)
		}
	}
	specs := make([]fleet.Spec, 3)
	for i := range specs {
		specs[i] = fleet.Spec{Subject: fleet.Hybrid, Route: fleet.Route{Addrs: []string{server.Addr()}}, Seed: uint64(i), Poisson: true}
		for turn, perSecond := range []float64{rolloutDemand, 0} {
			for _, terms := range limits[turn] {
				specs[i].Loads = append(specs[i].Loads, fleet.Load{Terms: terms, Key: "key", PerSecond: perSecond})
			}
		}
	}
	all, err := fleet.StartAll(specs)
	t.Cleanup(func() {
		for _, p := range all {
			_ = p.Kill()
		}
	})
	c.must(err)
	c.pass(2 * time.Second)
	for _, p := range all[:2] {
		c.must(p.Demand(0, 0, rolloutDemand, rolloutDemand))
		c.pass(time.Second) // what was used is paid back
		for attempt := 1; ; attempt++ {
			few := c.few(all, limits[0])
			if few == 0 {
				break
			}
			if attempt == 2 { // a busy machine disturbs an observation
				t.Errorf("%d times, a process admits nearly nothing", few)
				break
			}
		}
	}
	for _, p := range all {
		c.must(p.End())
	}
}

// few returns how many processes admit less than the smaller numbers give them, of a limit and in more than a tenth of the time.
func (c *crew) few(all []*fleet.Process, limits []fleet.Terms) (few int) {
	c.Helper()
	const spans, least = 10, rolloutSmall / 3 / 2
	seen := [][]fleet.Stats{c.stats(all)}
	for range spans {
		c.pass(rolloutSpan)
		seen = append(seen, c.stats(all))
	}
	for i, terms := range limits {
		for j := range all {
			var got []int64
			for n := range spans {
				from, to := seen[n][j].ByLoad, seen[n+1][j].ByLoad
				got = append(got, to[i]+to[i+len(limits)]-from[i]-from[i+len(limits)])
			}
			c.Logf("%s: process %d admits %v", terms.Name, j, got)
			slices.Sort(got)
			if got[spans/10] < least {
				few++
			}
		}
	}
	return few
}
