package telemetry

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluicehq/sluice/hybrid"
)

// Hybrid publishes the figures of hybrid limits. The function read returns the figures of the policy in force
// at each scrape; it must be safe for concurrent use.
func (m *Metrics) Hybrid(read func() []hybrid.LimitStats) {
	h := &hybrids{read: read}
	for i := range hybridGauges {
		h.gauges = append(h.gauges, hybridDesc(hybridGauges[i].name, hybridGauges[i].help))
	}
	h.units = hybridDesc("sluice_hybrid_units_total", "Units of hybrid limits, by what became of them.", "outcome")
	h.decisions = hybridDesc("sluice_hybrid_decisions_total",
		"Decisions about hybrid limits: local on granted units, cached by a denial that was kept, and exact by the store.", "by")
	h.calls = hybridDesc("sluice_hybrid_calls_total", "Claims on units that the store answered; several may travel in one call.")
	m.registry.MustRegister(h)
}

// hybridDesc describes a metric of hybrid limits.
func hybridDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"rule", "limit"}, labels...), nil)
}

// hybridGauges are the figures of one limit that may rise and fall.
var hybridGauges = []struct {
	name, help string
	read       func(*hybrid.LimitStats) float64
}{
	{"sluice_hybrid_keys", "Keys that this process counts.", func(l *hybrid.LimitStats) float64 { return float64(l.Keys) }},
	{"sluice_hybrid_over_units", "The most units by which all processes together may now exceed the limit of a key.", func(l *hybrid.LimitStats) float64 { return float64(l.Over) }},
	{"sluice_hybrid_under_units", "The most units of a key's limit that may now be left unused.", func(l *hybrid.LimitStats) float64 { return float64(l.Under) }},
	{"sluice_hybrid_escrow_units", "Units of this process's keys that are granted to all processes.", func(l *hybrid.LimitStats) float64 { return float64(l.Escrow) }},
	{"sluice_hybrid_unspent_units", "Granted units that this process has not spent.", func(l *hybrid.LimitStats) float64 { return float64(l.Unspent) }},
	{"sluice_hybrid_unreported_units", "Spent units that this process has not reported to the store.", func(l *hybrid.LimitStats) float64 { return float64(l.Unreported) }},
	{"sluice_hybrid_overdraft_units", "Units in use beyond the limit, of the key that uses most.", func(l *hybrid.LimitStats) float64 { return float64(l.Overdraft) }},
	{"sluice_hybrid_grant_units", "Units of a grant, in the mean since the start.", func(l *hybrid.LimitStats) float64 { return l.GrantSize }},
	{"sluice_hybrid_excess_units", "The most units by which a key was beyond its limit, in all answers of the store.", func(l *hybrid.LimitStats) float64 { return float64(l.Excess) }},
	{"sluice_hybrid_sync_age_seconds", "Time since the store last answered about the limit; 0 if it never did.", func(l *hybrid.LimitStats) float64 {
		if l.LastSync.IsZero() {
			return 0
		}
		return max(0, time.Since(l.LastSync).Seconds())
	}},
	{"sluice_hybrid_sync_duration_seconds", "Duration of the last call of the store about the limit.", func(l *hybrid.LimitStats) float64 { return l.SyncTime.Seconds() }},
}

// hybrids collects the figures of hybrid limits at each scrape.
type hybrids struct {
	read                    func() []hybrid.LimitStats
	gauges                  []*prometheus.Desc
	units, decisions, calls *prometheus.Desc
}

// Describe sends the descriptions of the metrics.
func (h *hybrids) Describe(to chan<- *prometheus.Desc) {
	for _, d := range append(h.gauges, h.units, h.decisions, h.calls) {
		to <- d
	}
}

// Collect sends the figures.
func (h *hybrids) Collect(to chan<- prometheus.Metric) {
	all := h.read()
	for i := range all {
		l := &all[i]
		rule, _, _ := strings.Cut(l.Limit, "/")
		for j := range hybridGauges {
			to <- prometheus.MustNewConstMetric(h.gauges[j], prometheus.GaugeValue, hybridGauges[j].read(l), rule, l.Limit)
		}
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{rule, l.Limit}, labels...)...)
		}
		count(h.units, l.Granted, "granted")
		count(h.units, l.Spent, "spent")
		count(h.units, l.Returned, "returned")
		count(h.units, l.Expired, "expired")
		count(h.units, l.Lost, "lost")
		count(h.decisions, l.Local, "local")
		count(h.decisions, l.Cached, "cached")
		count(h.decisions, l.Exact, "exact")
		count(h.calls, l.Calls)
	}
}
