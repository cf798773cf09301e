package overproxy

import (
	"fmt"

	"github.com/sluicehq/sluice/bench/figures"
)

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	cpu := figures.Bar{Promise: "a GET without a body: ≤ 30 µs of the process"}
	if s, ok := r[metricGet][sluiceName]; ok {
		cpu.Found, cpu.Measured, cpu.Holds = s.Text(1)+" µs", true, s.Median <= 30
	}
	return []figures.Bar{
		cpu,
		r.AtMost("the same: ≤ 3 × nginx with limit_req", metricGet, sluiceName, 3, nginxName, "%.1f µs", 2),
		r.AtLeast("requests a second: ≥ 3 × httputil.ReverseProxy", metricRate, sluiceName, 3, reverseName, "%.0f", 2),
		beyond(r, fmt.Sprintf("p99 at %d requests a second: ≤ nginx's + 0.5 ms", steady), metricTail, nginxName, 0.5, "ms"),
		beyond(r, "an upload in chunks, which falls back: ≤ httputil.ReverseProxy + 5 µs", metricUpload, reverseName, 5, "µs"),
		idle(r),
	}
}

// beyond holds if ours is at most some units more than another subject's figure.
func beyond(r figures.Results, promise, metric, other string, most float64, unit string) figures.Bar {
	us, ok1 := r[metric][sluiceName]
	them, ok2 := r[metric][other]
	if !ok1 || !ok2 {
		return figures.Bar{Promise: promise}
	}
	found := fmt.Sprintf("%.2f : %.2f %s", us.Median, them.Median, unit)
	return figures.Bar{Promise: promise, Found: found, Measured: true, Holds: us.Median <= them.Median+most}
}

// idle holds if an idle connection of a client costs what one of net/http costs, to within a tenth.
func idle(r figures.Results) figures.Bar {
	bar := figures.Bar{Promise: "memory of an idle connection of a client: ≤ 1.1 × net/http's"}
	us, ok1 := r.Median(metricIdle, sluiceName)
	them, ok2 := r.Median(metricIdle, reverseName)
	if ok1 && ok2 {
		bar.Found = fmt.Sprintf("%.1f kB : %.1f kB = %.2f", us/1e3, them/1e3, us/them)
		bar.Measured, bar.Holds = true, us <= 1.1*them
	}
	return bar
}

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar { return judge(b.Results()) }

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r := b.Results()
	report := b.Rounds.Report("The proxy", fmt.Sprintf(`µs are the time that the processes of a proxy spend on a request. %d
clients keep their connections. They and the upstream, which answers three bytes, share the machine with the proxies.
p99 is measured with %d requests a second that come at their times, whatever the answers. Idle is the memory for each of
%d connections that have made one request. The floor is bench/floor/proxy.go.`, connections, steady, b.idle))
	var names []string
	for _, s := range subjects() {
		names = append(names, s.name)
	}
	report.Publish("Proxies", "", figures.Columns(
		"", names,
		figures.Column{Title: "GET, µs", Cell: r.Cell(metricGet, 1)},
		figures.Column{Title: "× nginx", Cell: r.RatioCell(metricGet, nginxName, 2)},
		figures.Column{Title: "GET/s", Cell: r.Cell(metricRate, 0)},
		figures.Column{Title: "× ReverseProxy", Cell: r.RatioCell(metricRate, reverseName, 2)},
		figures.Column{Title: "chunked upload, µs", Cell: r.Cell(metricUpload, 1)},
		figures.Column{Title: "p99, ms", Cell: r.Cell(metricTail, 2)},
		figures.Column{Title: "idle, kB", Cell: r.MedianCell(metricIdle, 1e-3, 1)},
	))
	for _, program := range b.missing {
		report.Notes = append(report.Notes, program+" is not installed, and was not measured (Debian: apt-get install "+program+").")
	}
	return report
}
