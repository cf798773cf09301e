package main

import (
	"fmt"
	"slices"
	"strings"
)

// bar is a promise about a figure.
type bar struct {
	promise  string
	found    string // what was measured
	measured bool
	holds    bool
}

// verdict is how the report puts it.
func (b bar) verdict() string {
	switch {
	case !b.measured:
		return "not measured"
	case b.holds:
		return "holds"
	}
	return "**does not hold**"
}

func failed(bars []bar) int {
	n := 0
	for _, b := range bars {
		if b.measured && !b.holds {
			n++
		}
	}
	return n
}

// judge compares the results with every bar.
func judge(r results) []bar {
	return []bar{
		times(r, "token bucket over live keys, Zipf: ≤ 1.3 × floor-decision", "zipf", 1.3),
		times(r, "token bucket over live keys, uniform: ≤ 1.5 × floor-decision", "uniform", 1.5),
		faster(r, "Zipf: ≥ 2.2 × faster than the fastest peer", "zipf"),
		faster(r, "uniform: ≥ 2.2 × faster than the fastest peer", "uniform"),
		noAllocations(r),
		noSlower(r),
		times(r, "one hot key, parallel: ≤ 1.3 × floor-decision", "hot-parallel", 1.3),
		times(r, "one hot key, denied, serial: ≤ 1.5 × floor-decision", "denied-serial", 1.5),
		times(r, "one hot key, denied, parallel: ≤ 1.5 × floor-decision", "denied-parallel", 1.5),
		heapPerKey(r),
		collection(r),
		floodInside(r),
		floodDenied(r),
		httpOver(r),
		httpAllocations(r),
		httpLeast(r),
	}
}

// floorMetric returns the metric of floor-decision that another is compared
// with. The floor is defined by a line written, so denials, with which it
// writes nothing, are compared with admissions.
func floorMetric(metric string) string {
	if kind, ok := strings.CutPrefix(metric, "denied-"); ok {
		return "hot-" + kind
	}
	return metric
}

// times holds if ours is at most factor × floor-decision in a metric.
func times(r results, promise, metric string, factor float64) bar {
	us, ok1 := r.median(metric, sluiceName)
	least, ok2 := r.median(floorMetric(metric), floorDecision)
	if !ok1 || !ok2 {
		return bar{promise: promise}
	}
	found := fmt.Sprintf("%.1f ns : %.1f ns = %.2f", us, least, us/least)
	return bar{promise, found, true, us <= factor*least}
}

func faster(r results, promise, metric string) bar {
	us, ok1 := r.median(metric, sluiceName)
	name, best, ok2 := r.least(metric, isPeer)
	if !ok1 || !ok2 {
		return bar{promise: promise}
	}
	return bar{promise, fmt.Sprintf("%.2f × (%s, %.1f ns)", best/us, name, best), true, best >= 2.2*us}
}

func noAllocations(r results) bar {
	b := bar{promise: "0 allocations for every algorithm of fixed size", holds: true}
	var found []string
	for name, s := range r["allocs"] {
		if !strings.HasPrefix(name, sluiceName) || slices.Contains(growingAlgorithms, name) {
			continue
		}
		b.measured = true
		if s.median > 0 {
			b.holds = false
			found = append(found, fmt.Sprintf("%s: %.3f", name, s.median))
		}
	}
	slices.Sort(found)
	b.found = strings.Join(found, ", ")
	if b.holds && b.measured {
		b.found = "0"
	}
	return b
}

func noSlower(r results) bar {
	b := bar{promise: "one hot key, serial: no slower than the fastest keyed peer that keeps its keys itself"}
	us, ok1 := r.median("hot-serial", sluiceName)
	name, best, ok2 := r.least("hot-serial", isKeyedPeer)
	if ok1 && ok2 {
		b.measured, b.holds = true, us <= best
		b.found = fmt.Sprintf("%.1f ns : %.1f ns (%s)", us, best, name)
	}
	return b
}

func heapPerKey(r results) bar {
	b := bar{promise: "≤ 52 B of heap per live key, averaged over fills from n to 2 n keys"}
	if us, ok := r.median("heap", sluiceName); ok {
		b.measured, b.holds, b.found = true, us <= 52, fmt.Sprintf("%.1f B", us)
	}
	return b
}

func collection(r results) bar {
	b := bar{promise: "a collection with 10⁷ keys: ≤ 1.5 × that with floor-tables of the same bytes"}
	us, ok1 := r.median("gc", sluiceName)
	least, ok2 := r.median("gc", floorTable)
	if ok1 && ok2 {
		b.measured, b.holds = true, us <= 1.5*least
		b.found = fmt.Sprintf("%.2f ms : %.2f ms = %.2f", us, least, us/least)
	}
	return b
}

func floodInside(r results) bar {
	b := bar{promise: "10⁷ keys against a bound of 64 MB: memory stays inside"}
	peak, ok1 := r.median("flood-peak", sluiceName)
	limit, ok2 := r.median("flood-bound", sluiceName)
	if ok1 && ok2 {
		b.measured, b.holds = true, peak <= limit
		b.found = fmt.Sprintf("%.3f MB at most, of %.3f MB", peak/1e6, limit/1e6)
	}
	return b
}

func floodDenied(r results) bar {
	b := bar{promise: "a denied key stays denied through the flood"}
	if admitted, ok := r.median("flood-admitted", sluiceName); ok {
		b.measured, b.holds = true, admitted == 0
		b.found = fmt.Sprintf("admitted %.0f times", admitted)
	}
	return b
}

func httpOver(r results) bar {
	b := bar{promise: "middleware: ≤ 0.7 µs over a handler that only sets the same headers"}
	if over, ok := r.median("http-over", sluiceName); ok {
		b.measured, b.holds, b.found = true, over <= 700, fmt.Sprintf("%.0f ns", over)
	}
	return b
}

func httpAllocations(r results) bar {
	b := bar{promise: "middleware: ≤ 3 allocations"}
	if n, ok := r.median("http-allocs", sluiceName); ok {
		bare, _ := r.median("http-allocs", sluiceName+bareSuffix)
		b.measured, b.holds = true, n < 3.01
		b.found = fmt.Sprintf("%.2f, of which the bare handler %.2f", n, bare)
	}
	return b
}

func httpLeast(r results) bar {
	b := bar{promise: "middleware: less than every peer's, with its headers and over them"}
	us, ok1 := r.median("http", sluiceName)
	over, ok2 := r.median("http-over", sluiceName)
	name, best, ok3 := r.least("http", isPeer)
	overName, overBest, ok4 := r.least("http-over", isPeer)
	if ok1 && ok2 && ok3 && ok4 {
		b.measured, b.holds = true, us < best && over < overBest
		b.found = fmt.Sprintf("%.0f ns : %.0f ns (%s); over bare %.0f : %.0f (%s)", us, best, name, over, overBest, overName)
	}
	return b
}
