package inprocess

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/bench/figures"
)

// judgeMemory compares the results with every bar on decisions in memory.
func judgeMemory(r figures.Results) []figures.Bar {
	return []figures.Bar{
		times(r, "token bucket over live keys, Zipf: ≤ 1.35 × floor-decision", "zipf", 1.35),
		times(r, "token bucket over live keys, uniform: ≤ 1.2 × floor-decision", "uniform", 1.2),
		faster(r, "Zipf: ≥ 2.2 × faster than the fastest peer", "zipf", 2.2),
		faster(r, "uniform: ≥ 2.2 × faster than the fastest peer", "uniform", 2.2),
		asLive(r, "returning keys, Zipf: ≤ 1.15 × live keys in the same race", "returning-zipf"),
		asLive(r, "returning keys, uniform: ≤ 1.15 × live keys in the same race", "returning-uniform"),
		asLive(r, "a mix, a tenth in debt: ≤ 1.15 × live keys in the same race", "mix"),
		faster(r, "returning keys, Zipf: ≥ 2 × faster than the fastest peer", "returning-zipf", 2),
		faster(r, "returning keys, uniform: ≥ 2 × faster than the fastest peer", "returning-uniform", 2),
		first(r, "first visits, growing: ≤ 0.6 × the time of the fastest exact keyed peer", "first-growing"),
		first(r, "first visits, while keys expire: ≤ 0.6 × the time of the fastest exact keyed peer", "first-steady"),
		noAllocations(r),
		noSlower(r),
		times(r, "one hot key, parallel: ≤ 1.3 × floor-decision", "hot-parallel", 1.3),
		times(r, "one hot key, denied, serial: ≤ 1.5 × floor-decision", "denied-serial", 1.5),
		times(r, "one hot key, denied, parallel: ≤ 1.5 × floor-decision", "denied-parallel", 1.5),
		heapPerKey(r),
		collection(r),
		floodInside(r),
		floodDenied(r),
		overriddenBy(r, "one hot key, an empty table of overrides: ≤ 5 ns more than no table", "hot", emptyTable, 5),
		overriddenBy(r, "one hot key with an override, of a million: ≤ 20 ns more", "hot", theseKeys, 20),
		overriddenBy(r, "random keys, a million overrides of other keys: ≤ 20 ns more", "cold", otherKeys, 20),
		overriddenBy(r, "random keys with an override each, of a million: ≤ 20 ns more", "cold", theseKeys, 20),
		atMost(r, "≤ 100 B of heap per override", "bytes", 100, "%.1f B"),
		atMost(r, "a change of one override among a million: ≤ 10 µs", "change", 10_000, "%.0f ns"),
	}
}

// judgeHTTP compares the results with every bar on the middleware.
func judgeHTTP(r figures.Results) []figures.Bar {
	return []figures.Bar{httpOver(r), httpAllocations(r), httpLeast(r)}
}

// floorMetric returns the metric of floor-decision to compare with. The floor's definition includes one
// line written. Its denials write nothing, so denials are compared with its admissions.
func floorMetric(metric string) string {
	if kind, ok := strings.CutPrefix(metric, "denied-"); ok {
		return "hot-" + kind
	}
	return metric
}

// times holds if ours is at most factor × floor-decision in a metric.
func times(r figures.Results, promise, metric string, factor float64) figures.Bar {
	us, ok1 := r.Median(metric, sluiceName)
	least, ok2 := r.Median(floorMetric(metric), floorDecision)
	if !ok1 || !ok2 {
		return figures.Bar{Promise: promise}
	}
	found := fmt.Sprintf("%.1f ns : %.1f ns = %.2f", us, least, us/least)
	return figures.Bar{Promise: promise, Found: found, Measured: true, Holds: us <= factor*least}
}

func faster(r figures.Results, promise, metric string, factor float64) figures.Bar {
	us, ok1 := r.Median(metric, sluiceName)
	name, best, ok2 := r.Least(metric, isPeer)
	if !ok1 || !ok2 {
		return figures.Bar{Promise: promise}
	}
	return figures.Bar{
		Promise: promise, Found: fmt.Sprintf("%.2f × (%s, %.1f ns)", best/us, name, best),
		Measured: true, Holds: best >= factor*us,
	}
}

// asLive holds if decisions are hardly slower than decisions about live keys.
func asLive(r figures.Results, promise, metric string) figures.Bar {
	return r.AtMost(promise, metric, sluiceName, 1.15, liveKeys, "%.1f ns", 2)
}

// first holds if first visits take at most 0.6 of the fastest exact peer's time.
func first(r figures.Results, promise, metric string) figures.Bar {
	us, ok1 := r.Median(metric, sluiceName)
	name, best, ok2 := r.Least(metric, isExactKeyedPeer)
	if !ok1 || !ok2 {
		return figures.Bar{Promise: promise}
	}
	return figures.Bar{
		Promise: promise, Found: fmt.Sprintf("%.0f ns : %.0f ns (%s) = %.2f", us, best, name, us/best),
		Measured: true, Holds: us <= 0.6*best,
	}
}

func noAllocations(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "0 allocations for every algorithm of fixed size", Holds: true}
	var found []string
	for name, s := range r["allocs"] {
		if !strings.HasPrefix(name, sluiceName) || slices.Contains(growingAlgorithms, name) {
			continue
		}
		b.Measured = true
		if s.Median > 0 {
			b.Holds = false
			found = append(found, fmt.Sprintf("%s: %.3f", name, s.Median))
		}
	}
	slices.Sort(found)
	b.Found = strings.Join(found, ", ")
	if b.Holds && b.Measured {
		b.Found = "0"
	}
	return b
}

func noSlower(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "one hot key, serial: no slower than the fastest keyed peer that keeps its keys itself"}
	us, ok1 := r.Median("hot-serial", sluiceName)
	name, best, ok2 := r.Least("hot-serial", isKeyedPeer)
	if ok1 && ok2 {
		b.Measured, b.Holds = true, us <= best
		b.Found = fmt.Sprintf("%.1f ns : %.1f ns (%s)", us, best, name)
	}
	return b
}

func heapPerKey(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "≤ 52 B of heap per live key, averaged over fills from n to 2 n keys"}
	if us, ok := r.Median("heap", sluiceName); ok {
		b.Measured, b.Holds, b.Found = true, us <= 52, fmt.Sprintf("%.1f B", us)
	}
	return b
}

func collection(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "a collection with 10⁷ keys: ≤ 1.5 × that with floor-tables of the same bytes"}
	us, ok1 := r.Median("gc", sluiceName)
	least, ok2 := r.Median("gc", floorTable)
	if ok1 && ok2 {
		b.Measured, b.Holds = true, us <= 1.5*least
		b.Found = fmt.Sprintf("%.2f ms : %.2f ms = %.2f", us, least, us/least)
	}
	return b
}

func floodInside(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "10⁷ keys against a bound of 64 MB: memory stays inside"}
	peak, ok1 := r.Median("flood-peak", sluiceName)
	limit, ok2 := r.Median("flood-bound", sluiceName)
	if ok1 && ok2 {
		b.Measured, b.Holds = true, peak <= limit
		b.Found = fmt.Sprintf("%.3f MB at most, of %.3f MB", peak/1e6, limit/1e6)
	}
	return b
}

func floodDenied(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "a denied key stays denied through the flood"}
	if admitted, ok := r.Median("flood-admitted", sluiceName); ok {
		b.Measured, b.Holds = true, admitted == 0
		b.Found = fmt.Sprintf("admitted %.0f times", admitted)
	}
	return b
}

// overriddenBy holds if a decision takes at most so many nanoseconds more than without a table of overrides.
func overriddenBy(r figures.Results, promise, metric, name string, most float64) figures.Bar {
	with, ok1 := r.Median(overrideTag+metric, name)
	without, ok2 := r.Median(overrideTag+metric, noTable)
	if !ok1 || !ok2 {
		return figures.Bar{Promise: promise}
	}
	found := fmt.Sprintf("%.0f ns − %.0f ns = %.0f ns", with, without, with-without)
	return figures.Bar{Promise: promise, Found: found, Measured: true, Holds: with-without <= most}
}

// atMost holds if a figure of overrides is at most a number.
func atMost(r figures.Results, promise, metric string, most float64, format string) figures.Bar {
	b := figures.Bar{Promise: promise}
	if n, ok := r.Median(overrideTag+metric, theseKeys); ok {
		b.Measured, b.Holds, b.Found = true, n <= most, fmt.Sprintf(format, n)
	}
	return b
}

func httpOver(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "middleware: ≤ 0.7 µs over a handler that only sets the same headers"}
	if over, ok := r.Median("http-over", sluiceName); ok {
		b.Measured, b.Holds, b.Found = true, over <= 700, fmt.Sprintf("%.0f ns", over)
	}
	return b
}

func httpAllocations(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "middleware: ≤ 3 allocations"}
	if n, ok := r.Median("http-allocs", sluiceName); ok {
		bare, _ := r.Median("http-allocs", sluiceName+bareSuffix)
		b.Measured, b.Holds = true, n < 3.01
		b.Found = fmt.Sprintf("%.2f, of which the bare handler %.2f", n, bare)
	}
	return b
}

func httpLeast(r figures.Results) figures.Bar {
	b := figures.Bar{Promise: "middleware: less than every peer's, with its headers and over them"}
	us, ok1 := r.Median("http", sluiceName)
	over, ok2 := r.Median("http-over", sluiceName)
	name, best, ok3 := r.Least("http", isPeer)
	overName, overBest, ok4 := r.Least("http-over", isPeer)
	if ok1 && ok2 && ok3 && ok4 {
		b.Measured, b.Holds = true, us < best && over < overBest
		b.Found = fmt.Sprintf("%.0f ns : %.0f ns (%s); over bare %.0f : %.0f (%s)", us, best, name, over, overBest, overName)
	}
	return b
}
