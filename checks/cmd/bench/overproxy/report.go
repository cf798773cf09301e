package overproxy

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
	cpu := figures.Bar{Promise: "a GET without a body: ≤ 30 µs of the process"}
	if s, ok := r[metricGet][sluiceName]; ok {
		cpu.Found, cpu.Measured, cpu.Holds = s.Text(1)+" µs", true, s.Median <= 30
	}
	nginx := figures.Bar{Promise: "the same: ≤ 3 × nginx with limit_req"}
	if v, ok := r.Ratio(metricGet, sluiceName, nginxName); ok {
		nginx.Found, nginx.Measured, nginx.Holds = v.Text(2), true, v.Median <= 3
	}
	rate := figures.Bar{Promise: "requests a second: ≥ 3 × httputil.ReverseProxy"}
	if v, ok := r.Ratio(metricRate, sluiceName, reverseName); ok {
		rate.Found, rate.Measured, rate.Holds = v.Text(2), true, v.Median >= 3
	}
	return []figures.Bar{
		cpu, nginx, rate,
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

// report returns the whole report.
func (b *bench) report() *figures.Report {
	r := b.results()
	report := &figures.Report{
		Title: "Benchmarks of the proxy",
		Quick: b.turn == short.turn,
		About: fmt.Sprintf(`A figure is the median of %d interleaved rounds of %v, with the lowest and the highest; a ratio is the median of the
ratios of the rounds. µs are the time that the processes of a proxy spend on a request. %d clients keep their connections.
They and the upstream, which answers three bytes, share the machine with the proxies. The tail is the slowest hundredth of
%d requests a second that come whatever the answers, counted from when they should have come. Memory is that of %d
connections that have made one request each. The floor is checks/floor/proxy.go; the proxies' set-up is in
checks/cmd/bench/overproxy.`, b.rounds, b.turn.Round(time.Millisecond), connections, steady, b.idle),
		Quiet: b.quiet,
		Bars:  judge(r),
	}
	t := figures.Table{{"", "GET, µs", "× nginx", "GET/s", "× ReverseProxy", "chunked upload, µs", "p99, ms", "idle, kB"}}
	for _, s := range subjects() {
		cell := func(metric string, scale float64, decimals int) string {
			v, ok := r[metric][s.name]
			switch {
			case !ok:
				return ""
			case scale != 1:
				return fmt.Sprintf("%.*f", decimals, v.Median*scale)
			}
			return v.Text(decimals)
		}
		ratio := func(metric, over string) string {
			if v, ok := r.Ratio(metric, s.name, over); ok {
				return v.Text(2)
			}
			return ""
		}
		t.Append([]string{
			s.name, cell(metricGet, 1, 1), ratio(metricGet, nginxName), cell(metricRate, 1, 0), ratio(metricRate, reverseName),
			cell(metricUpload, 1, 1), cell(metricTail, 1, 2), cell(metricIdle, 1e-3, 1),
		})
	}
	report.Add("Proxies", "", t)
	for _, program := range b.missing {
		report.Notes = append(report.Notes, program+" is not installed, and was not measured (Debian: apt-get install "+program+").")
	}
	return report
}
