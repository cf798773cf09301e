package hybrid

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

const (
	shareRate = 400 // units a second of each limit; requests are twice as many
	// shareLeast is the least part that either half of the processes gets of what the other half gets.
	shareLeast = 0.75
)

// TestBothHalvesShareOverRedis lets three processes decide exactly, and three on granted units, about the same keys. All
// request as much, twice the limit together, as while an operator turns hybrid limits on server by server. Both halves get
// about the same. The exact processes once took whatever came free, and the others got a tenth.
func TestBothHalvesShareOverRedis(t *testing.T) {
	t.Parallel()
	for range redistest.Times(t, 1) {
		exactProcessesShare(t)
	}
}

func exactProcessesShare(t *testing.T) {
	t.Helper()
	server := redistest.Start(t)
	c := &crew{T: t}
	var limits []fleet.Terms
	for _, algorithm := range []string{"bucket", "aligned", "cells", "counter", "log"} {
		limits = append(limits, fleet.Terms{Name: algorithm, Algorithm: algorithm, Count: shareRate, Period: crewPeriod})
	}
	const half = 3
	specs := make([]fleet.Spec, 2*half)
	for i := range specs {
		specs[i] = fleet.Spec{Subject: fleet.Exact, Route: fleet.Route{Addrs: []string{server.Addr()}}, Seed: uint64(i), Poisson: true}
		for _, terms := range limits {
			if i < half {
				specs[i].Subject, terms.Hybrid = fleet.Hybrid, &sluice.Hybrid{}
			}
			specs[i].Loads = append(specs[i].Loads, fleet.Load{Terms: terms, Key: "key", PerSecond: 2 * shareRate / (2 * half)})
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
	for attempt := 1; ; attempt++ {
		before := c.stats(all)
		c.pass(3 * time.Second)
		unfair := c.unequal(limits, before, c.stats(all))
		if len(unfair) == 0 {
			break
		}
		if attempt == 3 { // a busy machine disturbs an observation
			t.Errorf("the shares are not equal: %s", unfair)
			break
		}
		t.Log(unfair)
	}
	for _, p := range all {
		c.must(p.End())
	}
}

// unequal compares what both halves of the processes got of each limit.
func (c *crew) unequal(limits []fleet.Terms, before, after []fleet.Stats) (unfair []string) {
	for i, terms := range limits {
		var got [2]float64
		for j := range after {
			got[2*j/len(after)] += float64(after[j].ByLoad[i] - before[j].ByLoad[i])
		}
		text := fmt.Sprintf("%s: processes with grants got %.0f units, exact ones %.0f", terms.Name, got[0], got[1])
		c.Log(text)
		if got[0] < shareLeast*got[1] || got[1] < shareLeast*got[0] {
			unfair = append(unfair, text)
		}
	}
	return unfair
}
