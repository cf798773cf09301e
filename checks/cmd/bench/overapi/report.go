package overapi

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
)

// results returns the figures of all rounds.
func (b *bench) results() figures.Results {
	r := figures.Results{}
	for metric, bySubject := range b.values {
		for name, values := range bySubject {
			r.Set(metric, name, figures.Summarize(values))
		}
	}
	return r
}

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	bars := []figures.Bar{{Promise: "/v1/check: ≤ 1.5 × a bare handler that decodes and encodes the same JSON"}}
	if v, ok := r.Ratio(metricCall, checkName, floorName); ok {
		bars[0].Measured, bars[0].Holds = true, v.Median <= 1.5
		bars[0].Found = fmt.Sprintf("%.1f : %.1f = %s", r[metricCall][checkName].Median, r[metricCall][floorName].Median, v.Text(2))
	}
	for _, name := range []string{smallName, largeName} {
		bar := figures.Bar{Promise: name + ": ≤ 4 µs a question"}
		if s, ok := r[metricQuestion][name]; ok {
			bar.Found, bar.Measured, bar.Holds = s.Text(2)+" µs", true, s.Median <= 4
		}
		bars = append(bars, bar)
	}
	return bars
}

// report returns the whole report.
func (b *bench) report() *figures.Report {
	r := b.results()
	report := &figures.Report{
		Title: "Benchmarks of the decision API",
		Quick: b.turn == short.turn,
		About: fmt.Sprintf(`A figure is the median of %d interleaved rounds of %v, with the lowest and the highest; a ratio is the median of the
ratios of the rounds. %d connections make calls. The callers share the machine with the servers. The bare handler is
checks/cmd/bareapi.`, b.rounds, b.turn.Round(time.Millisecond), connections),
		Quiet: b.quiet,
		Bars:  judge(r),
	}
	t := figures.Table{{"", "µs of the process", "µs a question", "calls/s", "× the bare handler"}}
	for _, s := range subjects() {
		row := []string{s.name}
		for _, c := range []struct {
			metric   string
			decimals int
		}{{metricCall, 1}, {metricQuestion, 2}, {metricRate, 0}} {
			text := ""
			if v, ok := r[c.metric][s.name]; ok {
				text = v.Text(c.decimals)
			}
			row = append(row, text)
		}
		ratio := ""
		if v, ok := r.Ratio(metricCall, s.name, floorName); ok {
			ratio = v.Text(2)
		}
		t.Append(append(row, ratio))
	}
	report.Add("Calls of the decision API", "", t)
	return report
}
