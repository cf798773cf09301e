package overfleet

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
)

// The steps that count what is admitted.
const (
	metricAdmitted = "admitted" // % of what the limit gives in the time
	metricOver     = "over"     // units beyond the bound, in the worst interval
	metricLocally  = "locally"  // % of the decisions that were local
)

// skew is the part of the demand that each process has.
var skew = [processes]float64{0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05}

// measureTwice requests twice a limit, unevenly.
func (b *bench) measureTwice(ctx context.Context) error {
	terms := fleet.Terms{Algorithm: "bucket", Count: 5000, Period: time.Second}
	return b.measureAdmitted(ctx, "twice", terms)
}

// measureLow requests twice a limit that is too low for grants.
func (b *bench) measureLow(ctx context.Context) error {
	terms := fleet.Terms{Algorithm: "bucket", Count: 100, Period: time.Second}
	return b.measureAdmitted(ctx, "low", terms)
}

// admitSubjects are what measureAdmitted measures, in the order of the table.
var admitSubjects = []string{fleet.Exact, fleet.Hybrid, fleet.Gubernator, leaky}

func (b *bench) measureAdmitted(ctx context.Context, step string, terms fleet.Terms) error {
	for _, subject := range admitSubjects {
		if !b.wants(step, subject) {
			continue
		}
		var spends []fleet.Spend
		var stats fleet.Stats
		terms := hybridly(terms, subject)
		terms.Name = b.name(step)
		specs, err := b.specs(subject, func(process int) []fleet.Load {
			return []fleet.Load{{Terms: terms, Key: "key", PerSecond: 2 * terms.PerSecond() * skew[process]}}
		})
		if err != nil {
			return err
		}
		for i := range specs {
			specs[i].Ledger = b.ledger()
			specs[i].Tick = 5 * time.Millisecond
		}
		err = with(specs, func(all []*fleet.Process) error {
			if err := pause(ctx, b.admit+b.admit/10); err != nil {
				return err
			}
			for _, p := range all {
				s, err := p.Stats()
				if err != nil {
					return err
				}
				stats.Decided += s.Decided
				stats.Local += s.Local
				if s.FirstError != "" {
					b.failed[step+", "+subject] = s.FirstError
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
		for _, s := range specs {
			more, err := fleet.ReadLedger(s.Ledger)
			if err != nil {
				return err
			}
			spends = append(spends, more...)
		}
		b.judgeAdmitted(step, subject, terms, spends, stats)
	}
	return nil
}

// judgeAdmitted compares the spends of the first seconds with what the limit gives in them.
func (b *bench) judgeAdmitted(step, subject string, terms fleet.Terms, spends []fleet.Spend, stats fleet.Stats) {
	if len(spends) == 0 {
		return
	}
	first := spends[0].From
	for _, s := range spends {
		first = min(first, s.From)
	}
	units, end := 0.0, first+int64(b.admit)
	for _, s := range spends {
		if s.To <= end {
			units += float64(s.Units)
		}
	}
	burst := float64(terms.Capacity())
	most := burst + terms.PerSecond()*b.admit.Seconds()
	if terms.Algorithm == "opened" {
		most = burst * math.Ceil(float64(b.admit)/float64(terms.Period))
		burst *= 2 // the end of a window and the beginning of the next
	}
	b.results.Set(metricOf(step, metricAdmitted), subject, figures.Once(100*units/most))
	e := fleet.Bucket(spends, burst, terms.PerSecond())
	b.results.Set(metricOf(step, metricOver), subject, figures.Once(e.Over()))
	if subject == fleet.Gubernator || subject == leaky {
		stats.Local = stats.Decided // no decision waits for another process
	}
	b.results.Set(metricOf(step, metricLocally), subject, figures.Once(100*float64(stats.Local)/float64(max(1, stats.Decided))))
}
