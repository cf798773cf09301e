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

// NoRule labels requests that no rule matched, and otherRule requests of rules that SetRules did not get. These are not
// valid names of rules.
const (
	NoRule    = "(none)"
	otherRule = "(other)"
)

// Metrics are the metrics of the program, for Prometheus. All methods are safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	decisions  *prometheus.CounterVec
	candidates *prometheus.CounterVec
	overflow   *prometheus.CounterVec
	degraded   *prometheus.CounterVec
	units      *prometheus.CounterVec
	upstream   *prometheus.CounterVec
	client     *prometheus.CounterVec
	models     *prometheus.CounterVec
	plans      prometheus.Counter
	durations  *prometheus.HistogramVec
	seconds    map[Edge]prometheus.Observer // durations, looked up once
	rules      atomic.Pointer[ruleSeries]
	none       *series
	other      *series
}

// series are the metrics of one rule, looked up once.
type series struct {
	outcomes [outcomes]prometheus.Counter
	// candidates count what the rule's candidates denied and allowed; nil for a rule without candidates.
	candidates *[2]prometheus.Counter
	overflow   prometheus.Counter
	degraded   prometheus.Counter
	units      prometheus.Counter
}

// ruleSeries are the metrics of all rules. Rules of an earlier policy that still decide are found by name.
type ruleSeries struct {
	byRule map[*policy.Rule]*series
	byName map[string]*series
}

// Edge is the listener that a request came through.
type Edge string

// EdgeRLS is the edge of Envoy's rate limit service, whose calls can have several descriptors of a rule.
const EdgeRLS Edge = "rls"

// NewMetrics returns metrics without rules.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), seconds: map[Edge]prometheus.Observer{}}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(vec)
		return vec
	}
	m.decisions = counters("sluice_decisions_total",
		"Requests by matching rule and outcome. A request counts once for each rule that matches it.", "rule", "outcome")
	m.candidates = counters("sluice_candidate_decisions_total",
		"Requests by matching rule and the decision of its candidates, which is not enforced.", "rule", "outcome")
	m.overflow = counters("sluice_overflow_decisions_total",
		"Requests whose key shared its budget with others, because the store was full.", "rule")
	m.degraded = counters("sluice_degraded_decisions_total",
		"Requests that the rule's on_store_error decided about, because the store did not.", "rule", "on_store_error")
	m.units = counters("sluice_requested_units_total",
		"Units that requests of a rule wanted, allowed or not: their costs, as far as they are known before the request.", "rule")
	m.client = counters("sluice_client_failures_total",
		"Requests whose clients broke them off or sent them wrongly, by what went wrong.", "problem")
	m.upstream = counters("sluice_upstream_failures_total",
		"Requests that the upstream did not answer, by what went wrong.", "problem")
	m.models = counters("sluice_model_answers_total",
		"Answers of language models that a limit counts, by the format of the API, and by how their cost was found.", "format", "end")
	m.plans = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_unknown_plans_total", Help: "Requests that name a plan that is not there, or several, at rules that plans have numbers for.",
	})
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_decision_duration_seconds",
		Help: "Duration of decisions, by listener.",
		Buckets: []float64{
			1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1,
		},
	}, []string{"edge"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m.durations, m.plans, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.none, m.other = m.series(NoRule, ""), m.series(otherRule, "")
	m.SetRules(nil)
	return m
}

func (m *Metrics) series(rule, fallback string) *series {
	s := &series{
		overflow: m.overflow.WithLabelValues(rule), degraded: m.degraded.WithLabelValues(rule, fallback), units: m.units.WithLabelValues(rule),
	}
	for o, name := range outcomeNames {
		s.outcomes[o] = m.decisions.WithLabelValues(rule, name)
	}
	return s
}

// SetRules sets the rules that have series. New series start at zero, and requests make no other series. The
// series of rules that are gone are removed, so that rules that come and go leave nothing behind. SetRules must
// not run concurrently with itself.
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
			for _, vec := range []*prometheus.CounterVec{m.decisions, m.candidates, m.overflow, m.degraded, m.units} {
				vec.DeletePartialMatch(prometheus.Labels{"rule": name})
			}
		}
	}
}

// ModelAnswered counts an answer of a language model in a format, and how its cost was found.
func (m *Metrics) ModelAnswered(format, end string) { m.models.WithLabelValues(format, end).Inc() }

// Measure makes Observe measure the decisions of an edge. It must not run concurrently with Observe.
func (m *Metrics) Measure(e Edge) { m.seconds[e] = m.durations.WithLabelValues(string(e)) }

// Observe counts one verdict. It does not count the error of a client that left: the store did not fail, and
// nothing was decided.
func (m *Metrics) Observe(e Edge, v *policy.Verdict, took time.Duration) {
	if v.Abandoned() {
		return
	}
	if seconds := m.seconds[e]; seconds != nil {
		seconds.Observe(took.Seconds())
	}
	if v.UnknownPlan {
		m.plans.Inc()
	}
	if len(v.Results) == 0 {
		m.of(v.Rule).outcomes[outcomeOfNone(v)].Inc()
		return
	}
	// The limits of a rule are next to each other.
	for rest := v.Results; len(rest) > 0; {
		rule, n, overflow, degraded := rest[0].Rule, 0, false, false
		for n < len(rest) && rest[n].Rule == rule && (n == 0 || e != EdgeRLS || !again(rest, n)) {
			overflow = overflow || rest[n].Decision.Overflow
			degraded = degraded || rest[n].Decision.Degraded
			n++
		}
		s := m.of(rule)
		s.outcomes[outcomeOf(v, rest[:n])].Inc()
		s.units.Add(float64(rest[0].Request.Cost))
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
		// A part of the key was missing, so no limit decided.
		m.of(v.Rule).outcomes[denied].Inc()
	}
}

// again reports whether the limits of a rule begin again: for another descriptor of the same call.
func again(results []policy.LimitResult, n int) bool {
	return results[n].Request.Limit.Name() == results[0].Request.Limit.Name()
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

// SetFailures sets the kinds of failures of an upstream, and of clients.
func (m *Metrics) SetFailures(upstream, client []string) {
	for _, name := range upstream {
		m.upstream.WithLabelValues(name)
	}
	for _, name := range client {
		m.client.WithLabelValues(name)
	}
}

// UpstreamFailed counts a request that the upstream did not answer. The problem is a kind of failure, never text
// from outside.
func (m *Metrics) UpstreamFailed(problem string) { m.upstream.WithLabelValues(problem).Inc() }

// ClientFailed counts a request that its client broke off or sent wrongly, by a kind of failure.
func (m *Metrics) ClientFailed(problem string) { m.client.WithLabelValues(problem).Inc() }

// Gauge publishes a value that is read at each scrape.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Gauges publishes a gauge for each value of a label. The values are few, and never come from a request.
func (m *Metrics) Gauges(name, help, label string, values []string, read func(value string) float64) {
	for _, v := range values {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{label: v},
		}, func() float64 { return read(v) }))
	}
}

// Counter publishes a value that only grows and is read at each scrape.
func (m *Metrics) Counter(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// Counters publishes a counter for each value of a label. The values are few, and never come from a request.
func (m *Metrics) Counters(name, help, label string, values []string, read func(value string) float64) {
	for _, v := range values {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{label: v},
		}, func() float64 { return read(v) }))
	}
}

// Histogram publishes a histogram, and returns the function that observes its durations.
func (m *Metrics) Histogram(name, help string) (observe func(time.Duration)) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets: []float64{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1, 5},
	})
	m.registry.MustRegister(h)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}

// Handler serves all metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Pressure publishes the pressure on each rule that SetRules last got. The function read returns
// the pressure, and must be safe for concurrent use.
func (m *Metrics) Pressure(read func(rule string) float64) {
	m.registry.MustRegister(&pressures{
		metrics: m, read: read,
		desc: prometheus.NewDesc("sluice_rule_pressure_ratio",
			"Demand for a rule's limits, denied or not, divided by what they allow, over a window: the greatest of its limits, the mean of its keys.",
			[]string{"rule"}, nil),
	})
}

// pressures collects the pressure on all rules at each scrape.
type pressures struct {
	metrics *Metrics
	read    func(rule string) float64
	desc    *prometheus.Desc
}

// Describe sends the description of the metric.
func (p *pressures) Describe(to chan<- *prometheus.Desc) { to <- p.desc }

// Collect sends the pressures.
func (p *pressures) Collect(to chan<- prometheus.Metric) {
	for name := range p.metrics.rules.Load().byName {
		to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, p.read(name), name)
	}
}
