package overfleet

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
)

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	bars := []figures.Bar{
		r.AtMost("a local decision: ≤ 1.6 × a decision in memory", metricLocal, fleet.Hybrid, 1.6, fleet.Memory, "%.2f ns", 1),
		figure(r, "allocations of a local decision: 0", metricAllocs, 0, 0, ""),
	}
	for _, callers := range raceCallers {
		hot := cell("hot", callers)
		bars = append(
			bars,
			atLeast(r, fmt.Sprintf("one hot key, %d callers a process: ≥ 30 × the decisions of exact limits", callers), hot, 30),
			r.AtMost(fmt.Sprintf("one hot key, %d callers a process: p99 ≤ 1/20 of exact limits", callers), metricOf(hot, metricP99), fleet.Hybrid, 1.0/20, fleet.Exact, "%.2f µs", 4),
			figure(r, fmt.Sprintf("one hot key, %d callers a process: ≤ 1 call to Redis for 200 decisions", callers), metricOf(hot, metricCalls), 0, 1.0/200, ""),
			r.AtMost(fmt.Sprintf("1,000 Zipf keys, %d callers a process: p99 ≤ 1/20 of exact limits", callers),
				metricOf(cell("zipf", callers), metricP99), fleet.Hybrid, 1.0/20, fleet.Exact, "%.2f µs", 4),
		)
	}
	return append(
		bars,
		figure(r, "demand twice the limit: 97 % to 100 % of it are admitted", metricOf("twice", metricAdmitted), 97, 100, " %"),
		figure(r, "demand twice the limit: never more than the bound, units beyond it", metricOf("twice", metricOver), -1e18, 0.05, ""),
		figure(r, "100/s over 8 processes: ≥ 99 % of it are admitted", metricOf("low", metricAdmitted), 99, 100, " %"),
		figure(r, "100/s over 8 processes: exact by itself, % of the decisions that were local", metricOf("low", metricLocally), 0, 5, " %"),
	)
}

// atLeast holds if the hybrid subject decides at least factor × as often as the exact one.
func atLeast(r figures.Results, promise, metric string, factor float64) figures.Bar {
	ratio, ok := r.Ratio(metric, fleet.Hybrid, fleet.Exact)
	if !ok {
		return figures.Bar{Promise: promise}
	}
	return figures.Bar{
		Promise:  promise,
		Found:    fmt.Sprintf("%s/s : %s/s = %s", thousands(r[metric][fleet.Hybrid].Median), thousands(r[metric][fleet.Exact].Median), ratio.Text(0)),
		Measured: true, Holds: ratio.Median >= factor,
	}
}

// figure holds if the hybrid subject's figure lies between two others.
func figure(r figures.Results, promise, metric string, least, most float64, unit string) figures.Bar {
	v, ok := r.Median(metric, fleet.Hybrid)
	if !ok {
		return figures.Bar{Promise: promise}
	}
	return figures.Bar{Promise: promise, Found: fmt.Sprintf("%.4g%s", v, unit), Measured: true, Holds: v >= least && v <= most}
}

func thousands(perSecond float64) string { return fmt.Sprintf("%.1fk", perSecond/1000) }

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar { return judge(b.results) }

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r := &figures.Report{
		Title: "Hybrid limits",
		Host:  fmt.Sprintf(", with %s over TCP on the same machine", b.version),
		About: fmt.Sprintf(`%d rounds. %d processes share each limit, and share the machine with the server. The subjects: exact limits in Redis,
hybrid limits with default settings, limits in the memory of each process, and a naive store of our
own that counts locally and adds its part to a counter in Redis every %v.%s`, b.rounds, processes, naiveSync, b.aboutGubernator()),
		Quiet: b.quiet,
	}
	local := figures.Table{{"", "ns", "allocations"}}
	for _, subject := range []string{fleet.Memory, fleet.Hybrid} {
		if s, ok := b.results[metricLocal][subject]; ok {
			local.Append([]string{subject, s.Text(1), b.results[metricAllocs][subject].Text(0)})
		}
	}
	r.Add("A local decision", "One goroutine, one key, Take.", local)
	r.Publish("One hot key", "All processes decide as fast as they can, about a limit that admits everything.", b.races("hot"))
	r.Publish(fmt.Sprintf("%d Zipf keys", zipfKeys), fmt.Sprintf(`The popularity of the n-th key is in proportion to 1/n. A process decides a key exactly until it gets 8
requests for it in the time of a synchronisation. Each race begins %v after the first request.`, b.warm), b.races("zipf"))
	admitted := figures.Table{{"", "admitted, %", "beyond the bound, units", "local, %"}}
	for _, step := range []string{"twice", "low"} {
		for _, subject := range admitSubjects {
			if s, ok := b.results[metricOf(step, metricAdmitted)][subject]; ok {
				admitted.Append([]string{
					step + ", " + subject, s.Text(2),
					b.results[metricOf(step, metricOver)][subject].Text(1), b.results[metricOf(step, metricLocally)][subject].Text(1),
				})
			}
		}
	}
	windows := ""
	if b.gubernator != "" {
		windows = ` A token bucket of Gubernator is a window of a second: 100 % is the limit in each, and the bound is twice the limit, and its rate. Its leaky bucket is like our
token bucket.`
	}
	r.Publish("What is admitted", fmt.Sprintf(`The demand is twice the limit, and uneven. 100 %% is what a token bucket gives in the first %v: its burst
and its rate. The interval that comes closest to the bound is that many units beyond it, or below it if the figure is
negative. Twice: 5000/s. Low: 100/s.%s`, b.admit, windows), admitted)
	r.Add("The plot, by window", fmt.Sprintf(`Units admitted in each window of a second, of %d; the demand is %d a second. The busiest process is killed in
the middle.`, plotCount, plotDemand), b.windows())
	r.Add("Errors", "The first error of each.", b.errors())
	return r
}

// aboutGubernator describes that subject, if it is measured.
func (b *bench) aboutGubernator() string {
	if b.gubernator == "" {
		return ""
	}
	version := ""
	if info, err := buildinfo.ReadFile(b.gubernator); err == nil {
		for _, m := range info.Deps {
			if strings.Contains(m.Path, fleet.Gubernator) {
				version = " (" + m.Path + " " + m.Version + ")"
			}
		}
	}
	return fmt.Sprintf(`
Gubernator%s
is a daemon in each process, all in one cluster, with the behavior GLOBAL: it synchronises every %v. Its calls are
calls between the processes.`, version, naiveSync)
}

// races returns the table of a race.
func (b *bench) races(step string) figures.Table {
	head := []string{"callers a process"}
	for _, n := range raceCallers {
		head = append(head, fmt.Sprintf("%d: k/s", n), "× exact", "p50/p99, µs", "calls a decision")
	}
	t := figures.Table{head}
	for _, subject := range raceSubjects {
		if subject == fleet.Gubernator && b.gubernator == "" {
			continue
		}
		row := []string{subject}
		for _, n := range raceCallers {
			name := cell(step, n)
			s, ok := b.results[name][subject]
			if !ok {
				row = append(row, "", "", "", "")
				continue
			}
			times := ""
			if ratio, ok := b.results.Ratio(name, subject, fleet.Exact); ok {
				times = ratio.Text(1)
			}
			row = append(
				row,
				figures.Stat{Median: s.Median / 1000, Low: s.Low / 1000, High: s.High / 1000}.Text(0), times,
				fmt.Sprintf("%.2f/%.2f", b.results[metricOf(name, metricP50)][subject].Median, b.results[metricOf(name, metricP99)][subject].Median),
				fmt.Sprintf("%.3g", b.results[metricOf(name, metricCalls)][subject].Median),
			)
		}
		t.Append(row)
	}
	return t
}

// windows returns the table of the plot.
func (b *bench) windows() figures.Table {
	head := []string{"second"}
	for i := range b.plot {
		head = append(head, fmt.Sprint(i+1))
	}
	t := figures.Table{append(head, "all")}
	for _, c := range b.curves {
		row, all := []string{c.subject}, 0
		for _, units := range c.windows(b.plot) {
			row = append(row, fmt.Sprint(units))
			all += units
		}
		t.Append(append(row, fmt.Sprint(all)))
	}
	return t
}

func (b *bench) errors() figures.Table {
	t := figures.Table{{"", "error"}}
	for _, name := range slices.SortedFunc(maps.Keys(b.failed), cmp.Compare) {
		t.Append([]string{name, b.failed[name]})
	}
	return t
}
