package telemetry

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sluicehq/sluice/policy"
)

// noRule labels requests that no rule matched, and otherRule those of rules that
// SetRules was not told of. No rule can be called so.
const (
	noRule    = "(none)"
	otherRule = "(other)"
)

// Metrics are the program's figures, for Prometheus. All methods are safe for
// concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	decisions  *prometheus.CounterVec
	candidates *prometheus.CounterVec
	overflow   *prometheus.CounterVec
	degraded   *prometheus.CounterVec
	upstream   *prometheus.CounterVec
	seconds    map[Edge]prometheus.Observer
	rules      atomic.Pointer[ruleSeries]
	none       *series
	other      *series
}

// series are the figures of one rule, looked up once.
type series struct {
	outcomes [outcomes]prometheus.Counter
	// candidates are what its candidates let pass and what they do not; nil of a rule that has none.
	candidates *[2]prometheus.Counter
	overflow   prometheus.Counter
	degraded   prometheus.Counter
}

// ruleSeries are the figures of all rules. Rules of an earlier policy that are still
// asked are found by their names.
type ruleSeries struct {
	byRule map[*policy.Rule]*series
	byName map[string]*series
}

// Edge says which listener a decision was asked for at.
type Edge string

// The edges.
const (
	EdgeProxy Edge = "proxy"
	EdgeAPI   Edge = "api"
)

// NewMetrics returns metrics that know no rules yet.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_decisions_total",
			Help: "Requests by the rule they met and what it decided. A request counts once for each rule that it meets.",
		}, []string{"rule", "outcome"}),
		candidates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_candidate_decisions_total",
			Help: "Requests by the rule they met and what its candidates decided, of which nothing follows.",
		}, []string{"rule", "outcome"}),
		overflow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_overflow_decisions_total",
			Help: "Requests whose key shared its budget with others, because the store was full.",
		}, []string{"rule"}),
		degraded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_degraded_decisions_total",
			Help: "Requests that the rule's on_store_error decided about, for the store did not.",
		}, []string{"rule", "on_store_error"}),
		upstream: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_upstream_failures_total",
			Help: "Requests that the upstream did not answer, by what went wrong.",
		}, []string{"problem"}),
		seconds: map[Edge]prometheus.Observer{},
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_decision_duration_seconds",
		Help: "Time that a decision took, by the listener it was asked for at.",
		Buckets: []float64{
			1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1,
		},
	}, []string{"edge"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m.decisions, m.candidates, m.overflow, m.degraded, m.upstream, seconds, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, e := range []Edge{EdgeProxy, EdgeAPI} {
		m.seconds[e] = seconds.WithLabelValues(string(e))
	}
	m.none, m.other = m.series(noRule, ""), m.series(otherRule, "")
	m.SetRules(nil)
	return m
}

func (m *Metrics) series(rule, fallback string) *series {
	s := &series{overflow: m.overflow.WithLabelValues(rule), degraded: m.degraded.WithLabelValues(rule, fallback)}
	for o, name := range outcomeNames {
		s.outcomes[o] = m.decisions.WithLabelValues(rule, name)
	}
	return s
}

// SetRules says which rules there are. Their series exist from then on, at zero or what they had,
// and no request makes any other. Those of rules that are no more are forgotten, so that rules that come
// and go leave nothing behind. It must not run twice at once.
func (m *Metrics) SetRules(rules []*policy.Rule) {
	next := &ruleSeries{byRule: make(map[*policy.Rule]*series, len(rules)), byName: make(map[string]*series, len(rules))}
	for _, r := range rules {
		s := m.series(r.Name, r.OnStoreError.String())
		if len(r.Candidate) > 0 {
			s.candidates = &[2]prometheus.Counter{m.candidates.WithLabelValues(r.Name, outcomeNames[allowed]), m.candidates.WithLabelValues(r.Name, outcomeNames[denied])}
		} else {
			m.candidates.DeletePartialMatch(prometheus.Labels{"rule": r.Name})
		}
		next.byRule[r], next.byName[r.Name] = s, s
	}
	before := m.rules.Swap(next)
	if before == nil {
		return
	}
	for name := range before.byName {
		if next.byName[name] == nil {
			for _, vec := range []*prometheus.CounterVec{m.decisions, m.candidates, m.overflow, m.degraded} {
				vec.DeletePartialMatch(prometheus.Labels{"rule": name})
			}
		}
	}
}

// Observe counts one verdict, unless the client has left meanwhile: that is no error of the store, and it was
// told nothing.
func (m *Metrics) Observe(e Edge, v *policy.Verdict, took time.Duration) {
	if v.Abandoned() {
		return
	}
	if seconds := m.seconds[e]; seconds != nil {
		seconds.Observe(took.Seconds())
	}
	if len(v.Results) == 0 {
		m.of(v.Rule).outcomes[outcomeOfNone(v)].Inc()
		return
	}
	// The limits of one rule stand together.
	for rest := v.Results; len(rest) > 0; {
		rule, n, overflow, degraded := rest[0].Rule, 0, false, false
		for n < len(rest) && rest[n].Rule == rule {
			overflow = overflow || rest[n].Decision.Overflow
			degraded = degraded || rest[n].Decision.Degraded
			n++
		}
		s := m.of(rule)
		s.outcomes[outcomeOf(v, rest[:n])].Inc()
		if asked, answer := candidatesOf(v, rest[:n]); asked && s.candidates != nil {
			s.candidates[answer].Inc()
		}
		if overflow {
			s.overflow.Inc()
		}
		if degraded {
			s.degraded.Inc()
		}
		rest = rest[n:]
	}
	if v.Rule != nil && v.Missing != nil {
		// Refused for a part of its key that is missing: it asked no limit.
		m.of(v.Rule).outcomes[denied].Inc()
	}
}

func (m *Metrics) of(rule *policy.Rule) *series {
	if rule == nil {
		return m.none
	}
	known := m.rules.Load()
	if s := known.byRule[rule]; s != nil {
		return s
	}
	if s := known.byName[rule.Name]; s != nil {
		return s
	}
	return m.other
}

// SetFailures says which ways there are in which an upstream fails.
func (m *Metrics) SetFailures(names []string) {
	for _, name := range names {
		m.upstream.WithLabelValues(name)
	}
}

// Failed counts a request that the upstream did not answer. The problem is one of
// a few words, never text from outside.
func (m *Metrics) Failed(problem string) { m.upstream.WithLabelValues(problem).Inc() }

// Gauge shows a figure that is read when it is asked for.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Counter shows a figure that only grows and is read when it is asked for.
func (m *Metrics) Counter(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// Counters shows figures that are parts of one, by a label. Of the values there are
// few, and they are none of a request.
func (m *Metrics) Counters(name, help, label string, values []string, read func(value string) float64) {
	for _, v := range values {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{label: v},
		}, func() float64 { return read(v) }))
	}
}

// Histogram returns what takes in the times that a histogram shows.
func (m *Metrics) Histogram(name, help string) (observe func(time.Duration)) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: []float64{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1, 5},
	})
	m.registry.MustRegister(h)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}

// Handler serves all figures.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

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
