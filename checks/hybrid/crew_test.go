package hybrid

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/fleet"
)

const (
	crewSize  = 8
	crewSync  = 100 * time.Millisecond
	crewLife  = 400 * time.Millisecond
	crewRate  = 400 // units a second of each limit; requests are twice as many
	crewMonth = 1200
	// crewPeriod is the period of the limits.
	crewPeriod = time.Second
)

// crewShares are the parts of the demand that the processes have. The last processes have so little
// that they decide exactly.
var crewShares = [crewSize]float64{3, 3, 2, 2, 2, 2, 1, 1}

// crewTerms are limits of every algorithm whose units can be granted.
func crewTerms() []fleet.Terms {
	terms := []fleet.Terms{
		{Algorithm: "bucket", Count: crewRate, Burst: crewRate / 2},
		{Algorithm: "aligned", Count: crewRate},
		{Algorithm: "opened", Count: crewRate},
		{Algorithm: "calendar", Count: crewMonth},
		{Algorithm: "cells", Count: crewRate},
		{Algorithm: "counter", Count: crewRate},
		{Algorithm: "log", Count: crewRate},
	}
	for i := range terms {
		t := &terms[i]
		t.Name, t.Period = t.Algorithm, crewPeriod
		t.Hybrid = &sluice.Hybrid{Sync: crewSync, Life: crewLife, Stranded: 0.15}
	}
	return terms
}

// A crew is processes that share a key of each limit.
type crew struct {
	*testing.T
	route     fleet.Route
	clock     fleet.Clock
	terms     []fleet.Terms
	processes [crewSize]*fleet.Process
	ledgers   []string
	// extra is what the bound of a limit is raised by.
	extra func(fleet.Terms) float64
}

// newCrew starts the processes.
func newCrew(t *testing.T, route fleet.Route) *crew {
	t.Helper()
	c := &crew{T: t, route: route, terms: crewTerms()}
	c.extra = func(fleet.Terms) float64 { return 0 }
	var err error
	if c.clock, err = fleet.NewClock(); err != nil {
		t.Fatal(err)
	}
	specs := make([]fleet.Spec, crewSize)
	for i := range specs {
		specs[i] = c.spec(i)
	}
	all, err := fleet.StartAll(specs)
	t.Cleanup(func() {
		for _, p := range all {
			_ = p.Kill()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	copy(c.processes[:], all)
	return c
}

// spec returns what process i does, with a ledger of its own.
func (c *crew) spec(i int) fleet.Spec {
	path := filepath.Join(c.TempDir(), "ledger")
	c.ledgers = append(c.ledgers, path)
	sum := 0.0
	for _, s := range crewShares {
		sum += s
	}
	spec := fleet.Spec{Subject: fleet.Hybrid, Route: c.route, Ledger: path, Seed: uint64(len(c.ledgers)), Tick: 20 * time.Millisecond}
	for _, terms := range c.terms {
		spec.Loads = append(spec.Loads, fleet.Load{Terms: terms, Key: "key", PerSecond: 2 * crewRate * crewShares[i] / sum})
	}
	return spec
}

// must fails the test if something failed.
func (c *crew) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// pass lets time pass.
func (c *crew) pass(d time.Duration) {
	c.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Context().Done():
		c.Fatal(c.Context().Err())
	}
}

// replace starts another process in place of one that was killed.
func (c *crew) replace(i int) {
	c.Helper()
	p, err := fleet.Start(c.spec(i))
	if p != nil {
		c.Cleanup(func() { _ = p.Kill() })
	}
	c.must(err)
	c.processes[i] = p
}

// finish ends the processes in order, and shows what they counted.
func (c *crew) finish() {
	c.Helper()
	var sum fleet.Stats
	for _, p := range c.processes {
		c.must(p.Demand(make([]float64, len(c.terms))...))
	}
	for _, p := range c.processes {
		s, err := p.Stats()
		c.must(err)
		sum.Decided += s.Decided
		sum.Allowed += s.Allowed
		sum.Errors += s.Errors
		sum.Local += s.Local
		sum.Exact += s.Exact
		sum.Cached += s.Cached
		sum.Calls += s.Calls
		if sum.FirstError == "" {
			sum.FirstError = s.FirstError
		}
		if s.Lost > 0 {
			c.Errorf("%d spends did not fit into a ledger", s.Lost)
		}
		c.must(p.Drain())
		c.must(p.End())
	}
	c.Logf("%d decisions, %d admitted; %d local, %d exact, %d from kept denials; %d calls, %d errors (%s)",
		sum.Decided, sum.Allowed, sum.Local, sum.Exact, sum.Cached, sum.Calls, sum.Errors, sum.FirstError)
	if sum.Local < sum.Decided/20 {
		c.Errorf("%d of %d decisions were local: does the test test grants?", sum.Local, sum.Decided)
	}
}

// spends returns what all processes have decided, for each limit.
func (c *crew) spends() [][]fleet.Spend {
	c.Helper()
	all := make([][]fleet.Spend, len(c.terms))
	for _, path := range c.ledgers {
		spends, err := fleet.ReadLedger(path)
		c.must(err)
		for _, s := range spends {
			all[s.Load] = append(all[s.Load], s)
		}
	}
	return all
}

// bounded holds all spends to the laws, on a clock that shows the server's time.
func (c *crew) bounded(all [][]fleet.Spend, shown serverTime) {
	c.Helper()
	for i, terms := range c.terms {
		e := law(terms, c.extra(terms), shown.of(all[i]))
		text := fmt.Sprintf("%s: the worst %v had %d units, the bound is %.1f",
			terms.Name, time.Duration(e.To-e.From).Round(time.Microsecond), e.Units, e.Most)
		if e.Over() > tolerance {
			c.Errorf("more units than the bound: %s", text)
		} else {
			c.Log(text)
		}
	}
}

// tolerance is for the rounding of times to microseconds.
const tolerance = 0.05

// law returns the interval that comes closest to the bound of a limit, raised by some units.
func law(t fleet.Terms, extra float64, spends []fleet.Spend) fleet.Excess {
	most := float64(t.Capacity()) + extra
	// The server's times are whole microseconds.
	length := int64(t.Period - 2*time.Microsecond)
	switch t.Algorithm {
	case "bucket":
		return fleet.Bucket(spends, most, t.PerSecond())
	case "aligned":
		return fleet.Aligned(spends, most, 0, int64(t.Period))
	case "opened":
		return fleet.Window(spends, most+float64(t.Capacity()), length)
	case "calendar":
		return fleet.Window(spends, most, int64(30*24*time.Hour))
	case "counter":
		return fleet.Window(spends, most+float64(t.Capacity())-1, length)
	default:
		return fleet.Window(spends, most, length)
	}
}

// recovers holds the limits to be fully used again in the period that begins a grant's life and a
// synchronisation after the end of the faults. For windows the period begins one period later: the calls that
// a fault has held up, and whose outcome nobody saw, count as used at its end, and leave the window only then.
// A period in which a busy machine made too few requests is not judged, and a limit is given a second one.
func (c *crew) recovers(healed int64) {
	c.Helper()
	open := map[string]fleet.Terms{}
	for _, terms := range c.terms {
		if terms.Algorithm != "calendar" { // used up
			open[terms.Name] = terms
		}
	}
	failed := map[string]bool{}
	const periods = 10
	for n := int64(2); len(open) > 0; n++ {
		if n > periods {
			c.Fatalf("the machine is too busy to use the limits: %d are left to judge", len(open))
		}
		last := healed + int64(crewLife+crewSync) + n*int64(crewPeriod)
		c.pass(time.Duration(last - c.clock.Now()))
		all := c.spends()
		for i, terms := range c.terms {
			if _, judge := open[terms.Name]; !judge {
				continue
			}
			end := last
			if terms.Algorithm == "bucket" {
				end -= int64(crewPeriod)
			}
			units, requests := int64(0), int64(0)
			for _, s := range all[i] {
				if s.From >= end-int64(crewPeriod) && s.To <= end {
					units += s.Units
					requests++
				}
			}
			if requests < terms.Count*3/2 {
				continue
			}
			least := (1 - mayWaste[terms.Algorithm]) * float64(terms.Count)
			text := fmt.Sprintf("%s: %d of %d requests were admitted after the faults, want %.0f", terms.Name, units, requests, least)
			c.Log(text)
			switch {
			case float64(units) >= least:
				delete(open, terms.Name)
			case failed[terms.Name]:
				c.Errorf("the limit is not used up again: %s", text)
				delete(open, terms.Name)
			default:
				failed[terms.Name] = true
			}
		}
	}
}

// mayWaste is what part of each limit may be left unused. Up to 15 % may be stranded in grants, and what
// processes deny by themselves costs up to 10 %. Spends leave a sliding window later by the time until
// their report, which is 10 % of a window of ten synchronisations. Cells give a steady client ten elevenths of
// the limit.
var mayWaste = map[string]float64{
	"bucket": 0.25, "aligned": 0.3, "opened": 0.3, "cells": 0.45, "counter": 0.4, "log": 0.4,
}
