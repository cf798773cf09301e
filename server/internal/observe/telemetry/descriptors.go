package telemetry

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
)

// mostValues bounds the series of descriptors that are counted by their values.
const mostValues = 1000

// Descriptors are the metrics of descriptors, for Prometheus: the counters that users of Envoy's rate limit service
// know. All methods are safe for concurrent use.
type Descriptors struct {
	near    atomic.Int64 // from how many millionths of a limit on a key is near it
	vecs    [hitKinds]*prometheus.CounterVec
	unknown prometheus.Counter
	rules   atomic.Pointer[map[*policy.Rule]*hits]

	mu     sync.Mutex
	values map[string]*hits // by rule and descriptor
	full   *hits
}

// hitKinds are the kinds of hits. A hit is a unit of cost.
const (
	totalHits = iota
	overLimit
	nearLimits
	withinLimit
	shadowMode
	hitKinds
)

// hits are the counters of one rule, or of one descriptor of a rule.
type hits [hitKinds]prometheus.Counter

// NewDescriptors returns metrics of descriptors, as a part of all metrics. See SetNear for near.
func NewDescriptors(m *Metrics, near float64) *Descriptors {
	d := &Descriptors{values: map[string]*hits{}}
	d.SetNear(near)
	for i, x := range [hitKinds]struct{ name, help string }{
		totalHits:   {"sluice_descriptor_hits_total", "Hits of descriptors that a limit applies to: their costs, allowed or not."},
		overLimit:   {"sluice_descriptor_over_limit_total", "Hits that the limits denied, in shadow too."},
		nearLimits:  {"sluice_descriptor_near_limit_total", "Allowed hits beyond near_limit of the limit, eight tenths by default."},
		withinLimit: {"sluice_descriptor_within_limit_total", "Allowed hits."},
		shadowMode:  {"sluice_descriptor_shadow_mode_total", "Hits that a limit in shadow would have denied."},
	} {
		d.vecs[i] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: x.name, Help: x.help}, []string{"domain", "rule", "descriptor"})
		m.registry.MustRegister(d.vecs[i])
	}
	d.unknown = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_descriptor_unknown_domain_total", Help: "Calls in the name of a domain that no rule has.",
	})
	m.registry.MustRegister(d.unknown)
	d.full = d.series("", otherRule, "")
	d.rules.Store(&map[*policy.Rule]*hits{})
	return d
}

// SetNear sets from which part of its limit on, between 0 and 1, a key is near the limit.
func (d *Descriptors) SetNear(near float64) { d.near.Store(int64(math.Round(near * millionths))) }

func (d *Descriptors) series(domain, rule, descriptor string) *hits {
	var h hits
	for i, vec := range d.vecs {
		h[i] = vec.WithLabelValues(domain, rule, descriptor)
	}
	return &h
}

// SetRules sets the rules that have series. The series of rules that are gone are removed. SetRules must not run
// concurrently with itself.
func (d *Descriptors) SetRules(rules []*policy.Rule) {
	next, names := map[*policy.Rule]*hits{}, map[string]bool{}
	for _, r := range rules {
		if m := r.Match.Descriptor; m != nil && !r.Unlimited && !r.Exempt {
			next[r], names[r.Name] = d.series(m.Domain, r.Name, pattern(m)), true
		}
	}
	before := d.rules.Swap(&next)
	gone := map[string]bool{}
	for r := range *before {
		if !names[r.Name] {
			gone[r.Name] = true
			for _, vec := range d.vecs {
				vec.DeletePartialMatch(prometheus.Labels{"rule": r.Name})
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := range d.values {
		if name, _, _ := strings.Cut(at, "\x00"); gone[name] {
			delete(d.values, at)
		}
	}
}

// Observe counts the descriptors of a call.
func (d *Descriptors) Observe(q []descriptors.Request, v *policy.DescriptorVerdict) {
	if !v.Known {
		d.unknown.Inc()
		return
	}
	if v.Err != nil || v.Refused != nil {
		return
	}
	rules := *d.rules.Load()
	for i := range v.Descriptors {
		r := &v.Descriptors[i]
		if r.Deciding == nil || q[i].Refund || r.Cost == 0 {
			continue
		}
		h := rules[r.Rule]
		switch m := r.Rule.Match.Descriptor; {
		case h == nil:
			h = d.full // a limit of the call's own, or a rule of an earlier policy
		case m.Detailed || counted(m):
			h = d.of(r.Rule, q[i].Entries)
		}
		h.add(r, d.near.Load())
	}
}

// millionths are the parts of a limit that are distinguished.
const millionths = 1_000_000

// add counts the hits of one descriptor.
func (h *hits) add(r *policy.DescriptorResult, near int64) {
	n := float64(r.Cost)
	h[totalHits].Add(n)
	if r.Over {
		h[overLimit].Add(n)
		if r.Rule.Shadow {
			h[shadowMode].Add(n)
		}
		return
	}
	h[withinLimit].Add(n)
	decision := &r.Deciding.Decision
	if decision.Degraded {
		return // how near is not known
	}
	beyond := decision.Limit - decision.Remaining - decision.Limit/millionths*near - decision.Limit%millionths*near/millionths
	if beyond > 0 {
		h[nearLimits].Add(float64(min(beyond, r.Cost)))
	}
}

// counted reports whether a rule counts by the values of some entries.
func counted(m *descriptors.Pattern) bool {
	for i := range m.Entries {
		if m.Entries[i].Counted {
			return true
		}
	}
	return false
}

// of returns the counters of a descriptor, which are made for at most mostValues.
func (d *Descriptors) of(r *policy.Rule, entries []descriptors.Entry) *hits {
	m := r.Match.Descriptor
	var b strings.Builder
	b.WriteString(r.Name)
	b.WriteByte(0)
	begins := b.Len()
	for i := range m.Entries {
		e := &m.Entries[i]
		value := e.Value
		if !e.Shared && (m.Detailed || e.Counted) {
			value = entries[i].Value
		}
		appendEntry(&b, i, e.Key, value)
	}
	at := b.String()
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.values[at]; h != nil {
		return h
	}
	if len(d.values) >= mostValues {
		return d.full
	}
	h := d.series(m.Domain, r.Name, strings.ToValidUTF8(at[begins:], "\uFFFD"))
	d.values[strings.Clone(at)] = h
	return h
}

// pattern returns the entries of a rule as Envoy's users write them: key_value.key.
func pattern(m *descriptors.Pattern) string {
	var b strings.Builder
	for i := range m.Entries {
		appendEntry(&b, i, m.Entries[i].Key, m.Entries[i].Value)
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// longestValue bounds the bytes of a value in a label.
const longestValue = 128

func appendEntry(b *strings.Builder, i int, key, value string) {
	if i > 0 {
		b.WriteByte('.')
	}
	b.WriteString(key)
	if value != "" {
		b.WriteByte('_')
		b.WriteString(value[:min(len(value), longestValue)])
	}
}
