package gate

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// parts is into how many a window is divided: that many are counted apart, the current one, and
// the oldest in proportion to what the window still holds of it.
const parts = 10

// gauge measures the demand for one limit over its window. What is told while a part of the
// window gives way to the next may be lost.
type gauge struct {
	limit  string
	window time.Duration
	mean   bool // of what was told, instead of the sum
	slots  [parts + 1]slot
	keys   atomic.Pointer[keySet]
}

// slot is what was told in one part of the window.
type slot struct {
	number atomic.Int64 // of the part, counted from 1
	demand atomic.Int64 // in parts of unit
	count  atomic.Int64
}

// unit is the demand of all that a window gives; mostDemand is what one request can add.
const (
	unit       = 1 << 40
	mostDemand = 1 << 52
)

func (g *gauge) part(now time.Duration) int64 { return int64(now/(g.window/parts)) + 1 }

func (g *gauge) add(now time.Duration, demand float64) {
	number := g.part(now)
	s := &g.slots[number%(parts+1)]
	if old := s.number.Load(); old != number && s.number.CompareAndSwap(old, number) {
		s.demand.Store(0)
		s.count.Store(0)
	}
	if s.demand.Load() < math.MaxInt64/2 {
		// Rounded up: what is all of a limit, taken together, is to be no less.
		s.demand.Add(int64(math.Ceil(min(demand*unit, mostDemand))))
	}
	s.count.Add(1)
}

// read returns the demand.
func (g *gauge) read(now time.Duration) float64 {
	number, width := g.part(now), g.window/parts
	passed := float64(now%width) / float64(width)
	demand, count := 0.0, 0.0
	for i := range g.slots {
		s := &g.slots[i]
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

// isIdle reports whether nothing was told for two windows.
func (g *gauge) isIdle(now time.Duration) bool {
	number := g.part(now)
	for i := range g.slots {
		if number-g.slots[i].number.Load() <= 2*parts {
			return false
		}
	}
	return true
}

// meet tells that a key was active.
func (g *gauge) meet(now time.Duration, k sluice.Key) {
	keys := g.keys.Load()
	if keys == nil {
		g.keys.CompareAndSwap(nil, newKeySet())
		keys = g.keys.Load()
	}
	keys.add(int64(now/g.window), k)
}
