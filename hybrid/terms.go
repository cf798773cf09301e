package hybrid

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// terms are the numbers of one limit, as the store needs them.
type terms struct {
	limit    *sluice.Limit
	capacity int64
	escrow   int64   // the most units in escrow
	credit   int64   // units before the first grant
	hotFrom  uint64  // requests between synchronisations from which on a key is granted
	sync     int64   // nanoseconds
	rate     float64 // units per nanosecond
	longest  int64   // the usual longest pause between claims while units are short, in nanoseconds
	reserve  float64 // the units that stay free while units are short
	tally    *tally
	entries  atomic.Int64
}

func newTerms(l *sluice.Limit, t *tally, hotFrom uint64) *terms {
	h := l.Hybrid()
	r := l.Rate()
	v := &terms{
		limit: l, capacity: l.Capacity(), escrow: l.Escrow(), credit: h.Credit, hotFrom: hotFrom, sync: int64(h.Sync),
		rate: float64(r.Count()) / float64(r.Period()), tally: t,
	}
	// Units are short while at most twice the reserve is free. The reserve is what the limit gives in
	// twice the longest pause, so what pauses hold back is what the limit gives in longestDenial. A
	// bucket loses nothing by units that stay free. Windows and logs do, so their reserve is small.
	part := float64(v.capacity) / 50
	if l.Params().Kind == algo.KindBucket {
		part = float64(v.capacity) / 4
	}
	v.longest = int64(min(float64(min(v.sync, longestDenial)/4), part/(2*v.rate)))
	v.longest = max(v.longest, int64(time.Millisecond))
	v.reserve = min(2*v.rate*float64(v.longest), part)
	return v
}

// same reports whether two limits have the same numbers and hybrid terms.
func same(a, b *sluice.Limit) bool {
	return a.Algorithm() == b.Algorithm() && *a.Hybrid() == *b.Hybrid()
}

// registry holds the terms of the limits in use, and their tallies.
type registry struct {
	mu      sync.Mutex
	byLimit map[*sluice.Limit]*terms
	tallies map[[2]uint64]*tally
	hotFrom uint64
	full    int // how many limits there are when it next drops unused ones
}

// mostTerms is how many limits the registry holds before it first drops unused ones.
const mostTerms = 1024

// of returns the terms of a limit, with one more entry.
func (g *registry) of(l *sluice.Limit) *terms {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.byLimit[l]
	if v == nil {
		if len(g.byLimit) >= max(g.full, mostTerms) {
			g.drop()
			g.full = max(2*len(g.byLimit), mostTerms)
		}
		t := g.tallies[l.ID()]
		if t == nil {
			t = new(tally)
			g.tallies[l.ID()] = t
		}
		t.limit.Store(l)
		v = newTerms(l, t, g.hotFrom)
		g.byLimit[l] = v
	}
	v.entries.Add(1)
	return v
}

// drop drops the terms without entries, and the tallies without terms.
func (g *registry) drop() {
	used := map[*tally]bool{}
	for l, v := range g.byLimit {
		if v.entries.Load() == 0 {
			delete(g.byLimit, l)
		} else {
			used[v.tally] = true
		}
	}
	for id, t := range g.tallies {
		if !used[t] {
			delete(g.tallies, id)
		}
	}
}

// all returns all tallies.
func (g *registry) all() []*tally {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*tally, 0, len(g.tallies))
	for _, t := range g.tallies {
		all = append(all, t)
	}
	return all
}
