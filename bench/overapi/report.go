package overapi

import (
	"fmt"

	"github.com/sluicehq/sluice/bench/figures"
)

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	bars := []figures.Bar{r.AtMost("/v1/check: ≤ 1.5 × a bare handler that decodes and encodes the same JSON", metricCall, checkName, 1.5, floorName, "%.1f", 2)}
	for _, name := range []string{smallName, largeName} {
		bar := figures.Bar{Promise: name + ": ≤ 4 µs a question"}
		if s, ok := r[metricQuestion][name]; ok {
			bar.Found, bar.Measured, bar.Holds = s.Text(2)+" µs", true, s.Median <= 4
		}
		bars = append(bars, bar)
	}
	return bars
}

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar { return judge(b.Results()) }

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r := b.Results()
	report := b.Rounds.Report("The decision API", fmt.Sprintf(`%d connections make calls. The callers share the machine with
the servers. The bare handler is bench/bareapi.`, connections))
	var names []string
	for _, s := range subjects() {
		names = append(names, s.name)
	}
	report.Publish("Calls", "", figures.Columns(
		"", names,
		figures.Column{Title: "µs of the process", Cell: r.Cell(metricCall, 1)},
		figures.Column{Title: "µs a question", Cell: r.Cell(metricQuestion, 2)},
		figures.Column{Title: "calls/s", Cell: r.Cell(metricRate, 0)},
		figures.Column{Title: "× the bare handler", Cell: r.RatioCell(metricCall, floorName, 2)},
	))
	return report
}
