package overdoors

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
)

// results returns the figures of all rounds.
func (b *bench) results() figures.Results {
	r := figures.Results{}
	for metric, byRow := range b.values {
		for name, values := range byRow {
			r.Set(metric, name, figures.Summarize(values))
		}
	}
	return r
}

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	return slices.Concat(judgeRLS(r), judgeAuth(r), judgeRESP(r))
}

// atLeast holds if one row makes at least so many times the calls a second of another one.
func atLeast(r figures.Results, name string, least float64, other string) figures.Bar {
	bar := figures.Bar{Promise: fmt.Sprintf("%s: calls/s ≥ %v × %s", name, least, other)}
	if v, ok := r.Ratio(metricCalls, name, other); ok {
		bar.Measured, bar.Holds = true, v.Median >= least
		bar.Found = fmt.Sprintf("%.0f : %.0f = %s", r[metricCalls][name].Median, r[metricCalls][other].Median, v.Text(2))
	}
	return bar
}

// report returns the whole report.
func (b *bench) report() *figures.Report {
	r := b.results()
	report := &figures.Report{
		Title: "Benchmarks of the doors",
		Quick: b.turn == short.turn,
		About: fmt.Sprintf(`A figure is the median of %d interleaved rounds of %v, with the lowest and the highest; a ratio is the median of the
ratios of the rounds. %d callers make calls over %d connections, with prepared bytes. They share the machine with the servers. The
floor, checks/cmd/baregrpc, decodes the same calls and encodes the same answers with the generated code.`,
			b.rounds, b.turn.Round(time.Millisecond), callers, channels),
		Quiet: b.quiet,
		Bars:  judge(r),
	}
	report.Add("Envoy's rate limit service", "", b.table(r, rlsDoor))
	report.Add("Forward-auth", "Each caller has a connection. The service behind nginx is the bare handler, whose time does not count there.", b.table(r, authDoor))
	report.Add("Clients of Redis", "Each caller has a connection. The script is a token bucket and nothing else; a call is one command, or a pipeline.", b.table(r, respDoor))
	return report
}

// table returns the figures of one door.
func (b *bench) table(r figures.Results, door string) figures.Table {
	t := figures.Table{{"", "µs of the process", "calls/s", "decisions/s"}}
	for _, row := range b.rows() {
		if row.door != door {
			continue
		}
		cells := []string{row.name}
		for _, c := range []struct {
			metric   string
			decimals int
		}{{metricCPU, 1}, {metricCalls, 0}, {metricDecisions, 0}} {
			text := ""
			if v, ok := r[c.metric][row.name]; ok {
				text = v.Text(c.decimals)
			}
			cells = append(cells, text)
		}
		t.Append(cells)
	}
	return t
}

// atMost holds if the servers of one row spend at most so many times the processor time of another row.
func atMost(r figures.Results, name string, most float64, other string) figures.Bar {
	bar := figures.Bar{Promise: fmt.Sprintf("%s: µs ≤ %v × %s", name, most, other)}
	if v, ok := r.Ratio(metricCPU, name, other); ok {
		bar.Measured, bar.Holds = true, v.Median <= most
		bar.Found = fmt.Sprintf("%.1f : %.1f = %s", r[metricCPU][name].Median, r[metricCPU][other].Median, v.Text(2))
	}
	return bar
}
