package gate

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// parts is the number of cells that a window is divided into. One more cell is kept: the oldest cell
// counts in proportion to its part that is still in the window.
const parts = 10

// gauge measures the demand for one limit over its window. Demand that is added while one cell
// replaces another may be lost.
type gauge struct {
	limit  string
	window time.Duration
	mean   bool // of the demands, instead of their sum
	cells  [parts + 1]cell
	keys   atomic.Pointer[keySet]
}

// cell is the demand in one part of the window.
type cell struct {
	number atomic.Int64 // of the cell, counted from 1
	demand atomic.Int64 // in fractions of unit
	count  atomic.Int64
}

// unit is the demand that equals the limit; mostDemand is the most that one request can add.
const (
	unit       = 1 << 40
	mostDemand = 1 << 52
)

func (g *gauge) cell(now time.Duration) int64 { return int64(now/(g.window/parts)) + 1 }

func (g *gauge) add(now time.Duration, demand float64) {
	number := g.cell(now)
	s := &g.cells[number%(parts+1)]
	if old := s.number.Load(); old != number && s.number.CompareAndSwap(old, number) {
		s.demand.Store(0)
		s.count.Store(0)
	}
	if s.demand.Load() < math.MaxInt64/2 {
		// Rounded up, so that demands that add up to a limit are never counted as less.
		s.demand.Add(int64(math.Ceil(min(demand*unit, mostDemand))))
	}
	s.count.Add(1)
}

// read returns the demand.
func (g *gauge) read(now time.Duration) float64 {
	number, width := g.cell(now), g.window/parts
	passed := float64(now%width) / float64(width)
	demand, count := 0.0, 0.0
	for i := range g.cells {
		s := &g.cells[i]
		weight := 1.0
		switch age := number - s.number.Load(); {
		case age < 0 || age > parts:
			continue
		case age == parts:
			weight = 1 - passed
		}
		demand += weight * float64(s.demand.Load()) / unit
		count += weight * float64(s.count.Load())
	}
	if g.mean {
		if count == 0 {
			return 0
		}
		return demand / count
	}
	if keys := g.keys.Load(); keys != nil {
		demand /= keys.active(int64(now / g.window))
	}
	return demand
}

// isIdle reports whether there was no demand for two windows.
func (g *gauge) isIdle(now time.Duration) bool {
	number := g.cell(now)
	for i := range g.cells {
		if number-g.cells[i].number.Load() <= 2*parts {
			return false
		}
	}
	return true
}

// see counts a key as active.
func (g *gauge) see(now time.Duration, k sluice.Key) {
	keys := g.keys.Load()
	if keys == nil {
		g.keys.CompareAndSwap(nil, newKeySet())
		keys = g.keys.Load()
	}
	keys.add(int64(now/g.window), k)
}

// keySet estimates how many keys were active in a window, by linear counting. Each key sets a bit, and
// the number of set bits gives the estimate.
type keySet struct {
	seed maphash.Seed
	// sets are for windows with even and odd numbers.
	sets [2]bitSet
}

const bitWords = 256

type bitSet struct {
	window atomic.Int64
	set    atomic.Int64 // bits that are set
	words  [bitWords]atomic.Uint64
}

func newKeySet() *keySet {
	s := &keySet{seed: maphash.MakeSeed()}
	for i := range s.sets {
		s.sets[i].window.Store(math.MinInt64)
	}
	return s
}

func (s *keySet) add(window int64, k sluice.Key) {
	b := &s.sets[window&1]
	if old := b.window.Load(); old != window && b.window.CompareAndSwap(old, window) {
		b.set.Store(0)
		for i := range b.words {
			b.words[i].Store(0)
		}
	}
	h := maphash.String(s.seed, k.Text()) + uint64(k.Len())
	bit := uint64(1) << (h & 63)
	w := &b.words[h>>6%bitWords]
	if w.Load()&bit == 0 && bits.OnesCount64(w.Or(bit)&bit) == 0 {
		b.set.Add(1)
	}
}

// active returns how many keys were active in this window or in the window before, whichever number is
// larger.
func (s *keySet) active(window int64) float64 {
	most := 1.0
	for i := range s.sets {
		b := &s.sets[i]
		if w := b.window.Load(); w == window || w == window-1 {
			most = max(most, b.estimate())
		}
	}
	return most
}

func (b *bitSet) estimate() float64 {
	const all = 64 * bitWords
	free := max(1, all-float64(b.set.Load()))
	return math.Round(all * math.Log(all/free))
}
