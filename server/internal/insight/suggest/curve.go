package suggest

import (
	"math"
	"slices"
)

// curve finds, for each key and each rate of a grid, the burst that would never have denied the key. A bucket that leaks at
// the rate and takes all costs is at most as full as that burst.
//
// All numbers are whole: levels are units times the microseconds of the period.
type curve struct {
	counts []int64 // the rates, in units a period
	period int64   // microseconds
	index  map[uint64]uint32
	last   []int64 // of each key: the time of its last request
	level  []int64 // of each key and rate
	most   []int64
	used   []bool // the key had requests since the last reset
}

// overflow is a level that is too large to count.
const overflow = math.MaxInt64 / 2

func newCurve(counts []int64, period int64) *curve {
	return &curve{counts: counts, period: period, index: map[uint64]uint32{}}
}

// key returns the number of a key by its hash.
func (c *curve) key(hash uint64) uint32 {
	i, ok := c.index[hash]
	if !ok {
		i = uint32(len(c.last))
		c.index[hash] = i
		c.last = append(c.last, math.MinInt64)
		c.used = append(c.used, false)
		c.level = append(c.level, make([]int64, len(c.counts))...)
		c.most = append(c.most, make([]int64, len(c.counts))...)
	}
	return i
}

// add counts a request of a key. Times do not go back.
func (c *curve) add(key uint32, at, cost int64) {
	passed := int64(0)
	if c.last[key] != math.MinInt64 {
		passed = max(0, at-c.last[key])
	}
	c.last[key], c.used[key] = at, true
	units := int64(overflow)
	if cost < overflow/c.period {
		units = cost * c.period
	}
	from := int(key) * len(c.counts)
	level, most := c.level[from:from+len(c.counts)], c.most[from:from+len(c.counts)]
	for i, count := range c.counts {
		l := level[i]
		if passed >= l/count+1 {
			l = 0
		} else {
			l -= count * passed
		}
		l = min(max(0, l)+units, overflow)
		level[i] = l
		most[i] = max(most[i], l)
	}
}

// reset begins a new measurement; levels stay.
func (c *curve) reset() {
	clear(c.most)
	clear(c.used)
}

// keys returns how many keys had requests.
func (c *curve) keys() int {
	n := 0
	for _, used := range c.used {
		if used {
			n++
		}
	}
	return n
}

// bursts returns the bursts that the keys need at a rate, in ascending order. A burst that is too large to count is
// math.MaxInt64.
func (c *curve) bursts(rate int) []int64 {
	var all []int64
	for key, used := range c.used {
		if !used {
			continue
		}
		l := c.most[key*len(c.counts)+rate]
		if l >= overflow {
			all = append(all, math.MaxInt64)
			continue
		}
		all = append(all, (l+c.period-1)/c.period)
	}
	slices.Sort(all)
	return all
}

// windows counts the units of each key in windows of a period that begin at its multiples.
type windows struct {
	period int64
	keys   []window
}

// window has the number of the last window of a key, its units, and the most units of all windows.
type window struct{ number, units, most int64 }

// add counts a request of a key.
func (w *windows) add(key uint32, at, cost int64) {
	for len(w.keys) <= int(key) {
		w.keys = append(w.keys, window{})
	}
	k := &w.keys[key]
	if number := at / w.period; k.number != number {
		k.number, k.units = number, 0
	}
	k.units = min(k.units+min(cost, overflow), overflow)
	k.most = max(k.most, k.units)
}

// counts returns the most units of a window of each key, in ascending order.
func (w *windows) counts() []int64 {
	var all []int64
	for _, k := range w.keys {
		all = append(all, k.most)
	}
	slices.Sort(all)
	return all
}

// quantile returns the least number that a share of the numbers does not exceed. The numbers are sorted.
func quantile(sorted []int64, share float64) int64 {
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(0, i), len(sorted)-1)]
}

// above returns how many of the numbers exceed a bound. The numbers are sorted.
func above(sorted []int64, bound int64) int64 {
	i, _ := slices.BinarySearch(sorted, bound+1)
	return int64(len(sorted) - i)
}

// needed returns how many keys a quantile needs: with fewer, the chance is above 5 % that all of them are below it.
func needed(share float64) int { return int(math.Ceil(math.Log(0.05) / math.Log(share))) }

// sayable rounds up to 1, 2 or 5 times a power of ten.
func sayable(n float64) int64 {
	for power := int64(1); power < math.MaxInt64/100; power *= 10 {
		for _, digit := range [...]int64{1, 2, 5} {
			if v := digit * power; float64(v) >= n-1e-9 {
				return v
			}
		}
	}
	return math.MaxInt64
}

// knee returns the index where a curve of falling numbers bends most, on scales of logarithms: the point that is the
// farthest below the line from the first point to the last.
func knee(xs, ys []int64) int {
	best, farthest := 0, 0.0
	last := len(xs) - 1
	log := func(n int64) float64 { return math.Log(float64(max(1, n))) }
	x0, y0, x1, y1 := log(xs[0]), log(ys[0]), log(xs[last]), log(ys[last])
	for i := range xs {
		if x1 == x0 {
			break
		}
		line := y0 + (y1-y0)*(log(xs[i])-x0)/(x1-x0)
		if d := line - log(ys[i]); d > farthest+1e-12 {
			best, farthest = i, d
		}
	}
	return best
}
