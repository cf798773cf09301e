package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Pressure shows the pressure on each rule that SetRules was last told of; read tells
// it, and must be safe for concurrent use.
func (m *Metrics) Pressure(read func(rule string) float64) {
	m.registry.MustRegister(&pressures{
		metrics: m, read: read,
		desc: prometheus.NewDesc("sluice_rule_pressure_ratio",
			"Demand for a rule's limits, denied or not, divided by what they give, over a window: the greatest of its limits, the mean of its keys.",
			[]string{"rule"}, nil),
	})
}

// pressures are read when they are asked for.
type pressures struct {
	metrics *Metrics
	read    func(rule string) float64
	desc    *prometheus.Desc
}

// Describe tells what there is.
func (p *pressures) Describe(to chan<- *prometheus.Desc) { to <- p.desc }

// Collect reads it.
func (p *pressures) Collect(to chan<- prometheus.Metric) {
	for name := range p.metrics.rules.Load().byName {
		to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, p.read(name), name)
	}
}
