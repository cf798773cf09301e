package overredis

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
)

// Bars implements figures.Part.
func (b *bench) Bars() []figures.Bar { return judge(b.results) }

// Report implements figures.Part.
func (b *bench) Report() *figures.Report {
	r := &figures.Report{
		Title: "Decisions in Redis",
		Host:  fmt.Sprintf(", with %s over TCP on the same machine", b.version),
		About: figures.Method(b.rounds, b.duration/time.Duration(b.rounds)) + fmt.Sprintf(` Callers are goroutines that send the next request when they have a result, so they share the machine
with the server. Clients have the defaults of their libraries, but no retries: go-redis has %d connections here. Over
rueidis, our store has one connection, and the floors have as many as rueidis chooses. The limits admit everything, and
every decision writes.`, b.poolSize),
		Quiet: b.quiet,
	}
	r.Publish(fmt.Sprintf("Decisions over %d keys", b.keys), "Thousands per second, by the number of callers.", b.rates("keys"))
	r.Add("Decisions on one hot key", "Thousands per second, by the number of callers. Errors do not count as decisions.", b.rates("hot"))
	r.Add("Against the minimal script", fmt.Sprintf("Decisions per second over %d keys, divided by the decisions of the minimal script through rueidis.", b.keys), b.ratios())
	r.Publish(fmt.Sprintf("Latency over %d keys", b.keys), "µs until the result: the median, and the 99th of 100.", b.latencies("keys"))
	r.Add("Latency on one hot key", "", b.latencies("hot"))
	r.Add("The server's processor", fmt.Sprintf(`µs per decision, over %d keys with %d callers. In the script: INFO commandstats of evalsha, per
call. In the process: INFO cpu, over the decisions.`, b.keys, barCallers), b.costs(cell("keys", barCallers), subjects(), minimalName))
	r.Add("Four limits at once", fmt.Sprintf("One rule with four limits, decided in one call, with %d callers; the same measures.", barCallers),
		b.costs(cell("batch", barCallers), batchSubjects(), floorBatchName))
	r.Add("Memory", fmt.Sprintf(`Bytes for each of %d keys of %d bytes, of which each has taken two units of 100 an hour. Used: the
growth of used_memory, tables and TTLs included. Key and value are the lengths in the server, if the value is a string.`, b.memoryKeys, figures.KeyLen), b.memoryTable())
	r.Add("Errors", "Errors in a hundred calls, with the first error.", b.errorTable())
	r.Add("Versions", "", b.versionTable())
	return r
}

// perCell returns a table with a row per subject and a column per number of callers.
func (b *bench) perCell(unit, step string, text func(cell, subject string) string) figures.Table {
	head := []string{unit}
	for _, n := range b.callers {
		head = append(head, fmt.Sprint(n))
	}
	t := figures.Table{head}
	for _, s := range subjects() {
		row := []string{s.name}
		for _, n := range b.callers {
			row = append(row, text(cell(step, n), s.name))
		}
		t.Append(row)
	}
	return t
}

func (b *bench) rates(step string) figures.Table {
	return b.perCell("k/s", step, func(cell, subject string) string {
		s, ok := b.results[cell][subject]
		if !ok {
			return ""
		}
		return figures.Stat{Median: s.Median / 1000, Low: s.Low / 1000, High: s.High / 1000}.Text(1)
	})
}

func (b *bench) ratios() figures.Table {
	return b.perCell("×", "keys", func(cell, subject string) string {
		ratio, ok := b.results.Ratio(cell, subject, minimalName)
		if !ok {
			return ""
		}
		return ratio.Text(2)
	})
}

func (b *bench) latencies(step string) figures.Table {
	return b.perCell("p50/p99, µs", step, func(cell, subject string) string {
		half, ok1 := b.results.Median(metricOf(cell, metricP50), subject)
		most, ok2 := b.results.Median(metricOf(cell, metricP99), subject)
		if !ok1 || !ok2 {
			return ""
		}
		return fmt.Sprintf("%.0f/%.0f", half, most)
	})
}

// costs returns the table of what decisions cost in the server.
func (b *bench) costs(cell string, among []subject, over string) figures.Table {
	t := figures.Table{{"", "in the script, µs", "×", "in the process, µs", "×", "decisions, k/s"}}
	for _, s := range among {
		row := []string{s.name, "", "", "", "", ""}
		for i, metric := range []string{metricScript, metricServer} {
			name := metricOf(cell, metric)
			if v, ok := b.results[name][s.name]; ok {
				row[1+2*i] = v.Text(2)
			}
			if ratio, ok := b.results.Ratio(name, s.name, over); ok {
				row[2+2*i] = ratio.Text(2)
			}
		}
		if v, ok := b.results.Median(cell, s.name); ok {
			row[5] = fmt.Sprintf("%.1f", v/1000)
		}
		t.Append(row)
	}
	return t
}

func (b *bench) memoryTable() figures.Table {
	t := figures.Table{{"", "used", "over minimal", "MEMORY USAGE", "key", "value", "a key"}}
	for _, s := range subjects() {
		used, ok := b.results[metricUsed][s.name]
		if !ok {
			continue
		}
		over := ""
		if least, ok := b.results.Median(metricUsed, minimalName); ok {
			over = fmt.Sprintf("%+.1f", used.Median-least)
		}
		value := ""
		if v, ok := b.results[metricValue][s.name]; ok {
			value = v.Text(0)
		}
		t.Append([]string{
			s.name, used.Text(1), over, b.results[metricUsage][s.name].Text(0),
			b.results[metricKeyText][s.name].Text(0), value, "`" + b.keyText[s.name] + "`",
		})
	}
	return t
}

func (b *bench) errorTable() figures.Table {
	t := figures.Table{{"", "%", ""}}
	for _, step := range []string{"keys", "hot", "batch"} {
		for _, n := range append(slices.Clone(b.callers), barCallers) {
			name := cell(step, n)
			for _, s := range append(subjects(), batchSubjects()...) {
				share, ok := b.results[metricOf(name, metricErrors)][s.name]
				if !ok || share.Median == 0 {
					continue
				}
				row := []string{name + ", " + s.name, share.Text(1), b.failed[metricOf(name, s.name)]}
				if !slices.ContainsFunc(t, func(r []string) bool { return r[0] == row[0] }) {
					t = append(t, row)
				}
			}
		}
	}
	return t
}

// versionTable lists the modules that were measured, and the clients under them.
func (b *bench) versionTable() figures.Table {
	modules := []string{"github.com/redis/rueidis", "github.com/redis/go-redis/v9", "github.com/gomodule/redigo"}
	for _, p := range peers.AllRedis() {
		modules = append(modules, p.Module)
	}
	return figures.Versions(modules)
}
