package inprocess

import (
	"fmt"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
)

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar {
	if b.name == "http" {
		return judgeHTTP(b.results)
	}
	return judgeMemory(b.results)
}

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r := &figures.Report{Quiet: b.quiet, Notes: b.notes}
	if b.name == "http" {
		r.Title = "The net/http middleware"
		r.About = fmt.Sprintf(`%d rounds. One goroutine, %d client addresses, a writer that discards. Bare is a handler that only sets the
headers that this middleware sets.`, b.rounds, httpClients)
		r.Publish("Middleware", "", httpTable(b.results))
		r.Add("Versions", "", versionTable())
		return r
	}
	r.Title = "Decisions in memory"
	r.About = fmt.Sprintf(`%d rounds. Nanoseconds are what one goroutine spends on one decision. Floors are defined in bench/floor, the peers'
set-up is in bench/peers.`, b.rounds)
	r.Publish("Decisions",
		fmt.Sprintf(`Zipf and uniform: %d live keys of %d bytes, %d goroutines (Zipf's exponent is %v). Hot: one key, by one goroutine
and by %d. Denied: one key that is used up. A floor that denies writes nothing.`,
			b.liveKeys, keyLen, goroutines, zipfExponent, goroutines),
		decisionTable(b.results))
	r.Add("Against floor-decision", "Denials are compared with the floor that admits.", ratioTable(b.results))
	r.Publish("Keys that return, and first visits",
		fmt.Sprintf(`Keys and goroutines as above. Returning: the budget is full again at each visit. Mix: uniform, but one request in ten
is of one of %d keys that are always in debt. First visits are of keys that were never seen: %d in an empty limiter,
which grows; and %d in a limiter whose earlier keys have a full budget again.`,
			debtors, b.firstKeys, b.firstKeys/4),
		perSubject("ns", returningMetrics, cellOf(b.results)))
	r.Publish("Algorithms", fmt.Sprintf(`Nanoseconds of our store with each algorithm, over %d keys drawn uniformly, %d goroutines.`,
		b.algorithmKeys, goroutines), algorithmTable(b.results))
	r.Publish("Memory", fmt.Sprintf(`Bytes of live heap per key, averaged over %d points from %d to %d live keys; one full collection at %d keys;
allocations of a decision on a known key. The floors have a fixed size.`,
		b.heapPoints, b.heapKeys, 2*b.heapKeys, b.heapKeys), memoryTable(b.results, subjects()))
	r.Add("Allocations of algorithms", "", memoryTable(b.results, sluiceAlgorithms()))
	r.Add(fmt.Sprintf("A collection with %d keys", b.gcKeys), "", gcTable(b.results))
	r.Add(fmt.Sprintf("A flood of %d keys", b.floodKeys),
		fmt.Sprintf(`Two keys are used up, and then every other key sends one request. One of the two sends %d more requests
on the way, the other only one at the end; neither may be admitted.`, floodSamples),
		floodTable(b.results))
	r.Publish("Overrides by call", fmt.Sprintf(`Nanoseconds of a decision of a policy with one rule, by one goroutine: about one key, and about %d live keys drawn
uniformly, with %d overrides or none. Bytes of live heap per override; nanoseconds of a change of one of them.`,
		b.liveKeys, b.liveKeys), overrideTable(b.results))
	r.Add("Clock", "", clockTable(b.results))
	r.Add("Versions", "", versionTable())
	return r
}

// A column of a table has the figures of one metric.
type column struct{ metric, title string }

// decisionMetrics are the columns of the table of decisions.
var decisionMetrics = []column{
	{"zipf", "Zipf"},
	{"uniform", "uniform"},
	{"hot-serial", "hot, serial"},
	{"hot-parallel", "hot, parallel"},
	{"denied-serial", "denied, serial"},
	{"denied-parallel", "denied, parallel"},
}

// returningMetrics are the columns of the table of keys that return, and of first visits.
var returningMetrics = []column{
	{"returning-zipf", "returning, Zipf"},
	{"returning-uniform", "returning, uniform"},
	{"mix", "mix"},
	{"first-growing", "first visit, growing"},
	{"first-steady", "first visit, keys expire"},
}

func decisionTable(r figures.Results) figures.Table {
	return perSubject("ns", decisionMetrics, cellOf(r))
}

// cellOf returns the text of a figure.
func cellOf(r figures.Results) func(name, metric string) string {
	return func(name, metric string) string {
		if s, ok := r[metric][name]; ok {
			return s.Text(0)
		}
		return ""
	}
}

func algorithmTable(r figures.Results) figures.Table {
	t := figures.Table{append([]string{"ns"}, states...)}
	for _, a := range algorithms() {
		row := []string{a.name}
		for _, state := range states {
			row = append(row, cellOf(r)(a.name, "algorithm-"+state))
		}
		t.Append(row)
	}
	return t
}

func ratioTable(r figures.Results) figures.Table {
	return perSubject("×", decisionMetrics, func(name, metric string) string {
		s, ok1 := r.Median(metric, name)
		least, ok2 := r.Median(floorMetric(metric), floorDecision)
		if !ok1 || !ok2 {
			return ""
		}
		return fmt.Sprintf("%.2f", s/least)
	})
}

// perSubject returns a table with a row per subject that has a cell, and a column per metric.
func perSubject(unit string, columns []column, cell func(name, metric string) string) figures.Table {
	head := []string{unit}
	for _, m := range columns {
		head = append(head, m.title)
	}
	t := figures.Table{head}
	for _, s := range append(subjects(), liveSubject()...) {
		row := []string{s.name}
		for _, m := range columns {
			row = append(row, cell(s.name, m.metric))
		}
		t.Append(row)
	}
	return t
}

func memoryTable(r figures.Results, among []subject) figures.Table {
	t := figures.Table{{"", "bytes per key", "collection, ms", "allocations"}}
	for _, s := range among {
		row := []string{s.name, "", "", ""}
		for i, metric := range []string{"heap", "heap-gc", "allocs"} {
			if v, ok := r[metric][s.name]; ok {
				row[i+1] = v.Text(min(i, 1))
			}
		}
		t.Append(row)
	}
	return t
}

func gcTable(r figures.Results) figures.Table {
	t := figures.Table{{"", "ms", "MB"}}
	for _, name := range []string{sluiceName, floorTable} {
		if s, ok := r["gc"][name]; ok {
			t = append(t, []string{name, s.Text(2), fmt.Sprintf("%.0f", r["gc-bytes"][name].Median/1e6)})
		}
	}
	return t
}

func floodTable(r figures.Results) figures.Table {
	t := figures.Table{{"", "MB at most", "used-up keys were admitted"}}
	for _, s := range boundedStores() {
		if peak, ok := r["flood-peak"][s.name]; ok {
			t = append(t, []string{
				s.name, fmt.Sprintf("%.1f", peak.Median/1e6),
				fmt.Sprintf("%.0f times", r["flood-admitted"][s.name].Median),
			})
		}
	}
	return t
}

func overrideTable(r figures.Results) figures.Table {
	t := figures.Table{{"", "one key, ns", "random keys, ns", "bytes", "a change, ns"}}
	for _, name := range []string{noTable, emptyTable, otherKeys, theseKeys} {
		row := []string{name}
		for _, metric := range []string{"hot", "cold", "bytes", "change"} {
			row = append(row, cellOf(r)(name, overrideTag+metric))
		}
		t.Append(row)
	}
	return t
}

func httpTable(r figures.Results) figures.Table {
	t := figures.Table{{"", "ns", "bare, ns", "over bare, ns", "allocations", "bare"}}
	for _, m := range middlewares() {
		s, ok := r["http"][m.name]
		if !ok {
			continue
		}
		t = append(t, []string{
			m.name, s.Text(0), r["http"][m.name+bareSuffix].Text(0),
			fmt.Sprintf("%.0f", r["http-over"][m.name].Median),
			fmt.Sprintf("%.1f", r["http-allocs"][m.name].Median),
			fmt.Sprintf("%.1f", r["http-allocs"][m.name+bareSuffix].Median),
		})
	}
	return t
}

func clockTable(r figures.Results) figures.Table {
	t := figures.Table{{"", "ns"}}
	for _, name := range []string{"time.Since", "time.Now"} {
		if s, ok := r["clock"][name]; ok {
			t = append(t, []string{name, s.Text(0)})
		}
	}
	return t
}

// versionTable lists the modules of the peers.
func versionTable() figures.Table {
	var modules []string
	for _, p := range peers.All() {
		modules = append(modules, p.Module)
	}
	return figures.Versions(modules)
}
