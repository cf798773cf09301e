package overfleet

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/fleet"
)

// The load of the plot: windows of a second that admit plotCount units, and three times as many requests.
// One process has most of them; another one has from the middle on, when the first is killed.
const (
	plotCount  = 1000
	plotDemand = 3 * plotCount
	plotHot    = 0.65
	// plotAbsent is how long it takes until a process replaces the killed one.
	plotAbsent = 500 * time.Millisecond
)

// credit names the curve of hybrid limits with a credit of a whole limit for each process.
const credit = "credit"

// A curve is what one subject has admitted.
type curve struct {
	subject string
	at      []int64 // nanoseconds since the beginning of the first window, in order
}

// windows returns how many units each window has admitted.
func (c curve) windows(n int) []int {
	units := make([]int, n)
	for _, at := range c.at {
		if i := int(at / int64(time.Second)); i < n {
			units[i]++
		}
	}
	return units
}

// plotNames are the curves, in the order of the legend, with their names there.
var plotNames = [][2]string{
	{fleet.Naive, "count and synchronise"},
	{credit, "hybrid, credit = limit"},
	{fleet.Exact, "exact"},
	{fleet.Hybrid, "hybrid"},
}

// measurePlot records what each subject admits while the load moves and a process crashes.
func (b *bench) measurePlot(ctx context.Context) error {
	for _, name := range plotNames {
		subject := name[0]
		if !b.wants("plot", subject) {
			continue
		}
		spends, origin, err := b.record(ctx, subject)
		if err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
		c := curve{subject: subject}
		for _, s := range spends {
			if s.Units > 0 {
				c.at = append(c.at, s.To-origin)
			}
		}
		slices.Sort(c.at)
		b.curves = append(b.curves, c)
	}
	if b.plotFile == "" || len(b.curves) < len(plotNames) {
		return nil
	}
	return os.WriteFile(b.plotFile, []byte(draw(b.curves, b.plot)), 0o644)
}

// record returns what a subject admits from the beginning of a window on, and that beginning.
func (b *bench) record(ctx context.Context, subject string) (spends []fleet.Spend, origin int64, err error) {
	terms := fleet.Terms{Name: b.name("plot"), Algorithm: "aligned", Count: plotCount, Period: time.Second}
	kind := subject
	switch subject {
	case fleet.Hybrid:
		terms.Hybrid = &sluice.Hybrid{}
	case credit:
		terms.Hybrid, kind = &sluice.Hybrid{Credit: plotCount}, fleet.Hybrid
	}
	specs, err := b.specs(kind, func(int) []fleet.Load { return []fleet.Load{{Terms: terms, Key: "key"}} })
	if err != nil {
		return nil, 0, err
	}
	demand := func(process int, later bool) float64 {
		hot := 0
		if later {
			hot = 3
		}
		if process == hot {
			return plotDemand * plotHot
		}
		return plotDemand * (1 - plotHot) / (processes - 1)
	}
	for i := range specs {
		specs[i].Tick = 5 * time.Millisecond
		specs[i].Ledger = b.ledger()
	}
	clock, err := fleet.NewClock()
	if err != nil {
		return nil, 0, err
	}
	var again *fleet.Process
	defer func() {
		if again != nil {
			_ = again.Kill() // which does nothing after End
		}
	}()
	ledgers := []string{}
	for _, s := range specs {
		ledgers = append(ledgers, s.Ledger)
	}
	err = with(specs, func(all []*fleet.Process) error {
		// The first request comes with a window.
		if err := pause(ctx, time.Until(time.Now().Truncate(time.Second).Add(2*time.Second))); err != nil {
			return err
		}
		origin = clock.Now() - time.Now().UnixNano()%int64(time.Second)
		for i, p := range all {
			if err := p.Demand(demand(i, false)); err != nil {
				return err
			}
		}
		half := time.Duration(b.plot) * time.Second / 2
		if err := pause(ctx, half+300*time.Millisecond); err != nil {
			return err
		}
		if err := all[0].Kill(); err != nil {
			return err
		}
		for i, p := range all[1:] {
			if err := p.Demand(demand(i+1, true)); err != nil {
				return err
			}
		}
		if err := pause(ctx, plotAbsent); err != nil {
			return err
		}
		next := specs[0]
		next.Ledger = b.ledger()
		ledgers = append(ledgers, next.Ledger)
		next.Loads = []fleet.Load{{Terms: terms, Key: "key", PerSecond: demand(0, true)}}
		if again, err = fleet.Start(next); err != nil {
			return err
		}
		if err := pause(ctx, half-plotAbsent); err != nil {
			return err
		}
		return again.End()
	})
	if err != nil {
		return nil, 0, err
	}
	for _, path := range ledgers {
		more, err := fleet.ReadLedger(path)
		if err != nil {
			return nil, 0, err
		}
		spends = append(spends, more...)
	}
	return spends, origin, nil
}
