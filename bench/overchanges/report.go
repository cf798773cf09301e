package overchanges

import (
	"fmt"

	"github.com/sluicehq/sluice/bench/figures"
)

// judge compares the results with every bar.
func judge(r figures.Results) (bars []figures.Bar) {
	for _, keeper := range keepers {
		b := figures.Bar{Promise: "overrides in " + keeper + ": ≥ 10,000 changes a second while all are made"}
		if s, ok := r[metricFill][keeper]; ok {
			b.Found, b.Measured, b.Holds = s.Text(0), true, s.Median >= 10_000
		}
		bars = append(bars, b)
		if keeper == inMemory {
			continue
		}
		b = figures.Bar{Promise: "a server with all overrides in " + keeper + ": starts in ≤ 5 s"}
		if s, ok := r[metricStart][keeper]; ok {
			b.Found, b.Measured, b.Holds = s.Text(2)+" s", true, s.Median <= 5
		}
		bars = append(bars, b)
	}
	return bars
}

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar { return judge(b.Results()) }

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r := b.Results()
	report := b.Rounds.Report("Overrides by call", fmt.Sprintf(`Calls of one change by %d callers, and of %d changes by %d callers, which change
keys that have an override. Then one caller makes %d overrides, in calls of %d, and a server starts with all of
them. The callers and Redis share the machine with the server.`, callers, batch, batchers, b.overrides, batch))
	report.Publish("Changes", "", figures.Columns(
		"kept in", keepers,
		figures.Column{Title: "changes/s, one in a call", Cell: r.Cell(metricSingle, 0)},
		figures.Column{Title: "µs of the process for each", Cell: r.Cell(metricSingleCost, 0)},
		figures.Column{Title: "changes/s, 1,000 in a call", Cell: r.Cell(metricBatch, 0)},
		figures.Column{Title: "changes/s, all overrides", Cell: r.Cell(metricFill, 0)},
		figures.Column{Title: "start, s", Cell: r.Cell(metricStart, 2)},
	))
	return report
}
