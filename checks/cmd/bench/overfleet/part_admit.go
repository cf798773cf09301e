package overfleet

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/checks/cmd/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
	"github.com/sluicehq/sluice/checks/redistest"
)

type redisStat = redistest.CommandStat

// The parts that count what is admitted.
const (
	metricAdmitted = "admitted" // % of what the bucket gives in the time
	metricOver     = "over"     // units beyond the bound, in the worst interval
	metricLocally  = "locally"  // % of the decisions that were local
)

// skew is the part of the demand that each process has.
var skew = [processes]float64{0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05}

// measureTwice requests twice a limit, unevenly.
func (b *bench) measureTwice(ctx context.Context) error {
	terms := fleet.Terms{Algorithm: "bucket", Count: 5000, Period: time.Second}
	return b.measureAdmitted(ctx, "twice", terms, []string{fleet.Exact, fleet.Hybrid})
}

// measureLow requests twice a limit that is too low for grants.
func (b *bench) measureLow(ctx context.Context) error {
	terms := fleet.Terms{Algorithm: "bucket", Count: 100, Period: time.Second}
	return b.measureAdmitted(ctx, "low", terms, []string{fleet.Exact, fleet.Hybrid})
}

func (b *bench) measureAdmitted(ctx context.Context, part string, terms fleet.Terms, subjects []string) error {
	for _, subject := range subjects {
		if !b.wants(part, subject) {
			continue
		}
		var spends []fleet.Spend
		var stats fleet.Stats
		terms := hybridly(terms, subject)
		terms.Name = b.name(part)
		specs := b.specs(subject, func(process int) []fleet.Load {
			return []fleet.Load{{Terms: terms, Key: "key", PerSecond: 2 * terms.PerSecond() * skew[process]}}
		})
		for i := range specs {
			specs[i].Ledger = b.ledger()
			specs[i].Tick = 5 * time.Millisecond
		}
		err := with(specs, func(all []*fleet.Process) error {
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
					b.failed[part+", "+subject] = s.FirstError
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
		b.judgeAdmitted(part, subject, terms, spends, stats)
	}
	return nil
}

// judgeAdmitted compares the spends of the first seconds with what the bucket gives in them.
func (b *bench) judgeAdmitted(part, subject string, terms fleet.Terms, spends []fleet.Spend, stats fleet.Stats) {
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
	most := float64(terms.Capacity()) + terms.PerSecond()*b.admit.Seconds()
	b.results.Set(metricOf(part, metricAdmitted), subject, figures.Once(100*units/most))
	e := fleet.Bucket(spends, float64(terms.Capacity()), terms.PerSecond())
	b.results.Set(metricOf(part, metricOver), subject, figures.Once(e.Over()))
	b.results.Set(metricOf(part, metricLocally), subject, figures.Once(100*float64(stats.Local)/float64(max(1, stats.Decided))))
}
