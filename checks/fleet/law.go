package fleet

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// An Excess is the interval that exceeds a law the most, or comes closest to it.
type Excess struct {
	From, To int64 // nanoseconds
	Units    int64 // spent inside, from beginning to end
	Most     float64
}

// Over returns by how much the interval exceeds the law. It is negative if the law holds.
func (e Excess) Over() float64 { return float64(e.Units) - e.Most }

// Bucket holds spends to the law of a token bucket: any interval of length w has at most
// burst + perSecond·w units. This holds if and only if a bucket that begins full admits all
// spends, each at some moment between its From and To.
func Bucket(spends []Spend, burst, perSecond float64) Excess {
	rate := perSecond / 1e9
	return widest(spends, math.MaxInt64, rate, burst)
}

// Window holds spends to the law of sliding windows: any interval shorter than length nanoseconds has at
// most count units. This holds if and only if a log admits all spends, each at some moment between its
// From and To.
func Window(spends []Spend, count float64, length int64) Excess {
	return widest(spends, length, 0, count)
}

// Aligned holds spends to the law of fixed windows: each has at most count units. A window is length
// nanoseconds long, and one begins at origin.
func Aligned(spends []Spend, count float64, origin, length int64) Excess {
	units := map[int64]int64{}
	for _, s := range spends {
		first, last := floor(s.From-origin, length), floor(s.To-origin, length)
		if first == last { // others may belong to either
			units[first] += s.Units
		}
	}
	worst := Excess{Most: count}
	for n, sum := range units {
		if sum > worst.Units || sum == worst.Units && origin+n*length < worst.From {
			worst.From, worst.To, worst.Units = origin+n*length, origin+(n+1)*length, sum
		}
	}
	return worst
}

func floor(v, by int64) int64 {
	if v < 0 {
		return -((-v + by - 1) / by)
	}
	return v / by
}

// widest finds the interval that is shorter than length and has the most units more than base + slope per
// nanosecond. Only spends that begin and end inside an interval belong to it.
func widest(spends []Spend, length int64, slope, base float64) Excess {
	byEnd := slices.Clone(spends)
	byEnd = slices.DeleteFunc(byEnd, func(s Spend) bool { return s.Units == 0 })
	if len(byEnd) == 0 {
		return Excess{Most: base}
	}
	worst := Excess{Most: math.Inf(1)}
	slices.SortFunc(byEnd, func(a, b Spend) int { return cmp.Compare(a.To, b.To) })
	begins := make([]int64, len(byEnd))
	for i, s := range byEnd {
		begins[i] = s.From
	}
	slices.Sort(begins)
	begins = slices.Compact(begins)
	origin := begins[0]
	// The value of a beginning is the units since then, of spends that have ended, plus what the slope would
	// have given until then.
	t := newTree(len(begins), func(i int) float64 { return slope * float64(begins[i]-origin) })
	units := newSums(len(begins))
	for _, s := range byEnd {
		at, _ := slices.BinarySearch(begins, s.From)
		t.add(at, float64(s.Units))
		units.add(at, s.Units)
		first := 0
		if length < math.MaxInt64 {
			first = sort.Search(len(begins), func(i int) bool { return begins[i] > s.To-length })
		}
		last := sort.Search(len(begins), func(i int) bool { return begins[i] > s.To }) - 1
		if first > last {
			continue // the spend itself may be longer
		}
		i, most := t.most(first, last)
		if over := most - slope*float64(s.To-origin) - base; over > worst.Over() {
			worst = Excess{begins[i], s.To, units.from(i), base + slope*float64(s.To-begins[i])}
		}
	}
	return worst
}
