package overfleet

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
)

// zipfKeys are the keys of the step zipf. The popularity of the n-th is in proportion to 1/n.
const zipfKeys = 1000

// raceCallers are how many callers each process has, one cell each.
var raceCallers = []int{1, 16}

// The name of a metric is the name of its cell, a dash, and one of these. The name of the cell without
// them is the decisions per second of all processes.
const (
	metricP50   = "p50"   // µs
	metricP99   = "p99"   // µs
	metricCalls = "calls" // scripts in Redis for each decision; of gubernator, calls between the processes
)

func cell(step string, callers int) string { return fmt.Sprintf("%s-%d", step, callers) }

func metricOf(cell, metric string) string { return cell + "-" + metric }

// raceSubjects are what races, in the order of the tables.
var raceSubjects = []string{fleet.Exact, fleet.Hybrid, slowly, fleet.Memory, fleet.Naive, fleet.Gubernator}

// measureRace lets the callers of all processes decide as fast as they can, about limits that admit
// everything. Each subject takes its turn in each round, with new processes.
func (b *bench) measureRace(ctx context.Context, step string, keys int) error {
	exponent, warmUp := 0.0, b.length/2
	if keys > 1 {
		exponent, warmUp = 1, b.warm
	}
	values := map[string]map[string][]float64{}
	for range b.rounds {
		b.quiet = append(b.quiet, figures.Quiet())
		for _, subject := range raceSubjects {
			if !b.wants(step, subject) || subject == slowly && keys == 1 {
				continue
			}
			terms := hybridly(roomyTerms(b.name(step)), subject)
			specs, err := b.specs(subject, func(int) []fleet.Load {
				return []fleet.Load{{Terms: terms, Key: figures.Key('k', 0), Copies: keys}}
			})
			if err != nil {
				return err
			}
			err = with(specs, func(all []*fleet.Process) error {
				for _, callers := range raceCallers {
					r := fleet.Race{Callers: callers, WarmUp: warmUp, Length: b.length, Zipf: exponent}
					if err := b.raceOnce(ctx, subject, cell(step, callers), all, r, values); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", subject, err)
			}
		}
	}
	for metric, subjects := range values {
		for subject, v := range subjects {
			b.results.Set(metric, subject, figures.Summarize(v))
		}
	}
	return nil
}

// raceOnce lets the processes race, and adds the figures to values.
func (b *bench) raceOnce(ctx context.Context, subject, cell string, all []*fleet.Process, r fleet.Race, values map[string]map[string][]float64) error {
	before, err := b.calls(ctx, subject, all)
	if err != nil {
		return err
	}
	stats, err := fleet.RaceAll(all, r)
	if err != nil {
		return err
	}
	after, err := b.calls(ctx, subject, all)
	if err != nil {
		return err
	}
	add := func(metric string, v float64) {
		if values[metric] == nil {
			values[metric] = map[string][]float64{}
		}
		values[metric][subject] = append(values[metric][subject], v)
	}
	var decided, failed int64
	var took fleet.Latencies
	for _, s := range stats {
		decided += s.Decided
		failed += s.Errors
		took.AddCounts(s.Latencies)
		if s.FirstError != "" {
			b.failed[cell+", "+subject] = s.FirstError
		}
	}
	if decided == 0 {
		return fmt.Errorf("%s: nothing was decided; %d errors: %s", cell, failed, b.failed[cell+", "+subject])
	}
	add(cell, float64(decided)/r.Length.Seconds())
	add(metricOf(cell, metricP50), micros(took.Quantile(0.5)))
	add(metricOf(cell, metricP99), micros(took.Quantile(0.99)))
	// The calls include the calls of the warm-up, and so must the decisions.
	share := float64(after-before) / (float64(decided) * float64(r.Length+r.WarmUp) / float64(r.Length))
	add(metricOf(cell, metricCalls), share)
	return nil
}

// calls returns how many calls of limiters the server has counted, or the processes if they call each other.
func (b *bench) calls(ctx context.Context, subject string, all []*fleet.Process) (sum int64, err error) {
	if subject == fleet.Gubernator {
		for _, p := range all {
			s, err := p.Stats()
			if err != nil {
				return 0, err
			}
			sum += s.Calls
		}
		return sum, nil
	}
	stats, err := b.server.CommandStats(ctx)
	return stats["evalsha"].Calls + stats["eval"].Calls + stats["incrby"].Calls, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
