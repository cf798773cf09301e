package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Figures is the number of figures in Totals: the outcomes, and the requests that candidates denied.
const Figures = int(outcomes) + 1

// Totals are what was counted about a rule since its metrics began.
type Totals [Figures]uint64

// FigureNames are the names of the figures in Totals. All but the last are the outcomes of sluice_decisions_total.
var FigureNames = func() (names [Figures]string) {
	copy(names[:], outcomeNames[:])
	names[outcomes] = "candidate_denied"
	return names
}()

// Denied returns the requests that the rule refused.
func (t *Totals) Denied() uint64 { return t[denied] }

// Demand returns the requests of all outcomes.
func (t *Totals) Demand() (sum uint64) {
	for _, n := range t[:outcomes] {
		sum += n
	}
	return sum
}

// Units returns the units that requests of a rule wanted.
func (m *Metrics) Units(rule string) uint64 {
	if s := m.rules.Load().byName[rule]; s != nil {
		return valueOf(s.units, new(dto.Metric))
	}
	return 0
}

// valueOf reads the number of a counter.
func valueOf(c prometheus.Counter, read *dto.Metric) uint64 {
	if err := c.Write(read); err != nil {
		return 0 // a counter can always be written
	}
	return uint64(read.GetCounter().GetValue())
}

// Totals visits the rules that SetRules got, in no order, and the requests that no rule matched, as a rule of the name
// "(none)". These are the numbers of the metrics. The visitor must not keep t.
func (m *Metrics) Totals(visit func(rule string, t *Totals)) {
	var read dto.Metric
	totals := func(rule string, s *series) {
		var t Totals
		for i, c := range s.outcomes {
			t[i] = valueOf(c, &read)
		}
		if s.candidates != nil {
			t[outcomes] = valueOf(s.candidates[1], &read)
		}
		visit(rule, &t)
	}
	for name, s := range m.rules.Load().byName {
		totals(name, s)
	}
	totals(NoRule, m.none)
}
