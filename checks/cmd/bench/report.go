package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/checks/peers"
)

// renderReport returns the whole report in Markdown, aligned to be read as is.
// The command is what measures the same again.
func renderReport(b *bench, command string, bars []bar) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# Benchmarks\n\n")
	fmt.Fprintf(&w, "Written by `%s`\non %s.\n\n", command, machine())
	if b.size == short {
		w.WriteString("A short run: these figures mean little.\n\n")
	}
	w.WriteString(`A figure is the median of interleaved rounds, with the lowest and the highest; nanoseconds are
what one goroutine spends on one decision. Floors are defined in checks/floor, the peers' set-up is in
checks/peers, the workloads are in checks/cmd/bench.

`)
	if len(b.quiet) > 0 {
		fmt.Fprintf(&w, `Was the machine quiet? Each of two goroutines that only compute ran at %s of the speed of one.

`, summarize(b.quiet).text(2))
	}
	section(&w, "Bars", "", barTable(bars))
	section(&w, "Decisions",
		fmt.Sprintf(`Zipf and uniform: %d live keys of %d bytes, %d goroutines (Zipf's exponent is %v). Hot: one key,
by one goroutine and by %d. Denied: one key that is used up. A floor that denies writes
nothing.`,
			b.liveKeys, keyLen, goroutines, zipfExponent, goroutines),
		decisionTable(b.results))
	section(&w, "Against floor-decision", "What is denied is compared with the floor that admits.", ratioTable(b.results))
	section(&w, "Memory", fmt.Sprintf(`Bytes of live heap per key, averaged over %d points from %d to %d live keys, with the least and the most;
one full collection at %d keys; allocations of a decision on a known key. The floors have a fixed size.`,
		b.heapPoints, b.heapKeys, 2*b.heapKeys, b.heapKeys), memoryTable(b.results))
	section(&w, fmt.Sprintf("A collection with %d keys", b.gcKeys), "", gcTable(b.results))
	section(&w, fmt.Sprintf("A flood of %d keys", b.floodKeys),
		fmt.Sprintf(`Two keys are used up, then every key asks once. Of the two, one asks again %d times on the way,
the other only at the end; neither may be admitted.`, floodSamples),
		floodTable(b.results))
	section(&w, "net/http middleware", fmt.Sprintf(`One goroutine, %d client addresses, a writer that discards. Bare is a handler that only sets the headers
this middleware sets.`, httpClients), httpTable(b.results))
	section(&w, "Clock", "", clockTable(b.results))
	section(&w, "Versions", "", versionTable())
	if len(b.notes) > 0 {
		w.WriteString("## Notes\n\n")
		for _, n := range b.notes {
			fmt.Fprintf(&w, "- %s\n", n)
		}
	}
	return strings.TrimRight(w.String(), "\n") + "\n"
}

// table is rows of cells; the first row is the head.
type table [][]string

// section writes a table under a title, unless it has no rows.
func section(w *strings.Builder, title, text string, t table) {
	if len(t) < 2 {
		return
	}
	fmt.Fprintf(w, "## %s\n\n", title)
	if text != "" {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		w.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
			}
			w.WriteString("|\n")
		}
	}
	w.WriteString("\n")
}

func barTable(bars []bar) table {
	t := table{{"bar", "measured", "verdict"}}
	for _, b := range bars {
		t = append(t, []string{b.promise, b.found, b.verdict()})
	}
	return t
}

// decisionMetrics are the columns of the table of decisions.
var decisionMetrics = []struct{ metric, title string }{
	{"zipf", "Zipf"},
	{"uniform", "uniform"},
	{"hot-serial", "hot, serial"},
	{"hot-parallel", "hot, parallel"},
	{"denied-serial", "denied, serial"},
	{"denied-parallel", "denied, parallel"},
}

func decisionTable(r results) table {
	return perSubject("ns", func(name, metric string) string {
		if s, ok := r[metric][name]; ok {
			return s.text(0)
		}
		return ""
	})
}

func ratioTable(r results) table {
	return perSubject("×", func(name, metric string) string {
		s, ok1 := r.median(metric, name)
		least, ok2 := r.median(floorMetric(metric), floorDecision)
		if !ok1 || !ok2 {
			return ""
		}
		return fmt.Sprintf("%.2f", s/least)
	})
}

// perSubject makes a row of each subject that has a cell, a column of each
// metric.
func perSubject(unit string, cell func(name, metric string) string) table {
	head := []string{unit}
	for _, m := range decisionMetrics {
		head = append(head, m.title)
	}
	t := table{head}
	for _, s := range subjects() {
		row := []string{s.name}
		for _, m := range decisionMetrics {
			row = append(row, cell(s.name, m.metric))
		}
		if strings.Join(row[1:], "") != "" {
			t = append(t, row)
		}
	}
	return t
}

func memoryTable(r results) table {
	t := table{{"", "bytes per key", "collection, ms", "allocations"}}
	for _, s := range append(subjects(), sluiceAlgorithms()...) {
		row := []string{s.name, "", "", ""}
		for i, metric := range []string{"heap", "heap-gc", "allocs"} {
			if v, ok := r[metric][s.name]; ok {
				row[i+1] = v.text(min(i, 1))
			}
		}
		if strings.Join(row[1:], "") != "" {
			t = append(t, row)
		}
	}
	return t
}

func gcTable(r results) table {
	t := table{{"", "ms", "MB"}}
	for _, name := range []string{sluiceName, floorTable} {
		if s, ok := r["gc"][name]; ok {
			t = append(t, []string{name, s.text(2), fmt.Sprintf("%.0f", r["gc-bytes"][name].median/1e6)})
		}
	}
	return t
}

func floodTable(r results) table {
	t := table{{"", "MB at most", "used-up keys were admitted"}}
	for _, s := range boundedStores() {
		if peak, ok := r["flood-peak"][s.name]; ok {
			t = append(t, []string{
				s.name, fmt.Sprintf("%.1f", peak.median/1e6),
				fmt.Sprintf("%.0f times", r["flood-admitted"][s.name].median),
			})
		}
	}
	return t
}

func httpTable(r results) table {
	t := table{{"", "ns", "bare, ns", "over bare, ns", "allocations", "bare"}}
	for _, m := range middlewares() {
		s, ok := r["http"][m.name]
		if !ok {
			continue
		}
		t = append(t, []string{
			m.name, s.text(0), r["http"][m.name+bareSuffix].text(0),
			fmt.Sprintf("%.0f", r["http-over"][m.name].median),
			fmt.Sprintf("%.1f", r["http-allocs"][m.name].median),
			fmt.Sprintf("%.1f", r["http-allocs"][m.name+bareSuffix].median),
		})
	}
	return t
}

func clockTable(r results) table {
	t := table{{"", "ns"}}
	for _, name := range []string{"time.Since", "time.Now"} {
		if s, ok := r["clock"][name]; ok {
			t = append(t, []string{name, s.text(0)})
		}
	}
	return t
}

// versionTable lists the modules the peers come from.
func versionTable() table {
	t := table{{"module", "version"}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	wanted := map[string]bool{}
	for _, p := range peers.All() {
		wanted[p.Module] = true
	}
	for _, d := range info.Deps {
		if wanted[d.Path] {
			t = append(t, []string{d.Path, d.Version})
		}
	}
	return t
}

// machine describes where the figures come from.
func machine() string {
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
