package overdoors

import (
	"fmt"
	"slices"

	"github.com/sluicehq/sluice/bench/figures"
)

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	return slices.Concat(judgeGRPC(r), judgeAuth(r), judgeRESP(r))
}

// atLeast holds if one row makes at least so many times the calls a second of another one.
func atLeast(r figures.Results, name string, least float64, other string) figures.Bar {
	return r.AtLeast(fmt.Sprintf("%s: calls/s ≥ %v × %s", name, least, other), metricCalls, name, least, other, "%.0f", 2)
}

// atMost holds if the servers of one row spend at most so many times the processor time of another row.
func atMost(r figures.Results, name string, most float64, other string) figures.Bar {
	return r.AtMost(fmt.Sprintf("%s: µs ≤ %v × %s", name, most, other), metricCPU, name, most, other, "%.1f", 2)
}

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar { return judge(b.Results()) }

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r, rows := b.Results(), b.rows()
	report := b.Rounds.Report("Gateways and protocols", fmt.Sprintf(`%d callers make calls with prepared bytes, each when it has its last answer. They
have a connection each; over gRPC and SPOP they share %d. Latencies are of %d calls a second by %d callers, each at its
time, whatever the answers. The callers share the machine with the servers. The service behind the gateways is the bare
handler, whose time does not count. No call is denied.`, callers, channels, steadyRate, steadyCallers))
	report.Publish("What each costs", `CPU is processor time of a request that passes: of the gateway, Sluice and redis-server together. Added is the
difference from the same gateway without a limit. A gateway such as Envoy, or a program, makes the calls of the other
rows by itself: there the whole call is added.`, costs(r, rows))
	for _, s := range []struct{ door, title, text string }{
		{authDoor, "Forward-auth", "The gateways have the files of examples/gateways."},
		{spoeDoor, "HAProxy", "HAProxy has the files of examples/haproxy-spoe. The agent by itself gets the messages that HAProxy sends."},
		{grpcDoor, "Envoy", "The floor, bench/baregrpc, decodes the same calls and encodes the same answers with the generated code."},
		{respDoor, "Clients of Redis", "The script is a token bucket and nothing else; a call is one command, or a pipeline."},
	} {
		var names []string
		for _, row := range rows {
			if row.door == s.door {
				names = append(names, row.name)
			}
		}
		report.Add(s.title, s.text, figures.Columns(
			"", names,
			figures.Column{Title: "µs of the processes", Cell: r.Cell(metricCPU, 1)},
			figures.Column{Title: "of redis-server", Cell: r.Cell(metricStore, 1)},
			figures.Column{Title: "calls/s", Cell: r.Cell(metricCalls, 0)},
			figures.Column{Title: "decisions/s", Cell: r.Cell(metricDecisions, 0)},
			figures.Column{Title: "p50, µs", Cell: r.Cell(metricP50, 0)},
			figures.Column{Title: "p99, µs", Cell: r.Cell(metricP99, 0)},
		))
	}
	return report
}

// costs returns the short table of what decides a request, and of gateways without a limit.
func costs(r figures.Results, rows []row) figures.Table {
	without := map[string]string{}
	var names []string
	for _, a := range rows {
		without[a.name] = a.without
		base := slices.ContainsFunc(rows, func(b row) bool { return b.without == a.name })
		if a.units == 1 && (base || !a.floor) {
			names = append(names, a.name)
		}
	}
	added := func(metric string, decimals int) func(string) string {
		return func(name string) string {
			v, ok1 := r[metric][name]
			base, ok2 := r[metric][without[name]]
			if !ok1 || !ok2 {
				return ""
			}
			return fmt.Sprintf("%.*f", decimals, v.Beyond(base).Median)
		}
	}
	return figures.Columns(
		"", names,
		figures.Column{Title: "CPU, µs", Cell: r.MedianCell(metricAll, 1, 1)},
		figures.Column{Title: "added", Cell: added(metricAll, 1)},
		figures.Column{Title: "p50, µs", Cell: r.MedianCell(metricP50, 1, 0)},
		figures.Column{Title: "added", Cell: added(metricP50, 0)},
		figures.Column{Title: "p99, µs", Cell: r.MedianCell(metricP99, 1, 0)},
		figures.Column{Title: "added", Cell: added(metricP99, 0)},
	)
}
