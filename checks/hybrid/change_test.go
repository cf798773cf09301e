package hybrid

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

const (
	changeOld = 500 // units a second before the change
	changeNew = 60  // and after it
)

// changes returns a limit of each algorithm before and after its numbers were lowered.
func changes() (before, after []fleet.Terms) {
	terms := sluice.Hybrid{Sync: crewSync, Life: crewLife, Stranded: 0.15}
	for _, algorithm := range []string{"bucket", "aligned", "opened", "cells", "counter", "log"} {
		old := fleet.Terms{Name: algorithm, Algorithm: algorithm, Count: changeOld, Period: crewPeriod, Hybrid: &terms}
		now := old
		now.Count = changeNew
		before, after = append(before, old), append(after, now)
	}
	return before, after
}

// TestLoweredNumbers lowers the numbers of limits that are used up, in half of the processes, and then in the others.
// What was used before is paid back at the old rate: the processes with the old numbers go on, and all
// processes use the new limit after the pause that exact limits have too. A report was once booked under the numbers of
// the process that made it. All that was used before then became a debt at the new rate, for everybody.
func TestLoweredNumbers(t *testing.T) {
	t.Parallel()
	for range redistest.Times(t, 1) {
		lowersNumbers(t)
	}
}

func lowersNumbers(t *testing.T) {
	t.Helper()
	server := redistest.Start(t)
	before, after := changes()
	c := &crew{T: t}
	var err error
	c.clock, err = fleet.NewClock()
	c.must(err)
	const processes, each = 4, changeOld / 2 // together twice the old limit
	specs := make([]fleet.Spec, processes)
	for i := range specs {
		path := filepath.Join(t.TempDir(), "ledger")
		c.ledgers = append(c.ledgers, path)
		specs[i] = fleet.Spec{
			Subject: fleet.Hybrid, Route: fleet.Route{Addrs: []string{server.Addr()}}, Ledger: path,
			Seed: uint64(i), Tick: 20 * time.Millisecond,
		}
		for _, terms := range before {
			specs[i].Loads = append(specs[i].Loads, fleet.Load{Terms: terms, Key: "key", PerSecond: each})
		}
		for _, terms := range after {
			specs[i].Loads = append(specs[i].Loads, fleet.Load{Terms: terms, Key: "key"})
		}
	}
	all, err := fleet.StartAll(specs)
	t.Cleanup(func() {
		for _, p := range all {
			_ = p.Kill()
		}
	})
	c.must(err)
	change := func(some []*fleet.Process) {
		demand := make([]float64, 2*len(before))
		for i := range before {
			demand[len(before)+i] = each
		}
		for _, p := range some {
			c.must(p.Demand(demand...))
		}
		c.pass(2 * crewPeriod) // until what was used is paid back, and reports of it have left windows
	}
	c.pass(2 * crewPeriod)
	change(all[:processes/2])
	c.uses(all[processes/2:], before, 0)
	change(all[processes/2:])
	c.uses(all, after, len(before))
	shown := c.clockOf(server)
	for _, p := range all {
		c.must(p.End())
	}
	c.terms = slices.Concat(before, after)
	spends := c.spends()
	for i, terms := range before {
		e := law(terms, 0, shown.of(append(spends[i], spends[len(before)+i]...)))
		t.Logf("%s: the worst %v had %d units, the bound is %.1f", terms.Name, time.Duration(e.To-e.From), e.Units, e.Most)
		if e.Over() > tolerance {
			t.Errorf("%s: the old limit is exceeded by %.1f units", terms.Name, e.Over())
		}
	}
}

// uses holds processes to use the limits, whose loads begin at an index, in one of two observations.
func (c *crew) uses(all []*fleet.Process, limits []fleet.Terms, first int) {
	c.Helper()
	for attempt := 1; ; attempt++ {
		before := c.stats(all)
		begun := time.Now()
		c.pass(2 * crewPeriod)
		after := c.stats(all)
		long := time.Since(begun).Seconds()
		unused := 0
		for i, terms := range limits {
			units := int64(0)
			for j := range all {
				units += after[j].ByLoad[first+i] - before[j].ByLoad[first+i]
			}
			least := (1 - mayWaste[terms.Algorithm]) * terms.PerSecond() * long
			c.Logf("%s: %d units of %.0f/s in %.1fs, want %.0f", terms.Name, units, terms.PerSecond(), long, least)
			if float64(units) < least {
				unused++
			}
		}
		switch {
		case unused == 0:
			return
		case attempt == 2: // a busy machine disturbs an observation
			c.Errorf("%d limits are not used", unused)
			return
		}
	}
}
