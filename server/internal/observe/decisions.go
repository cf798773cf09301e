package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/live"
	"github.com/sluicehq/sluice/server/internal/observe/logfile"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// Options configure Decisions. All fields are required.
type Options struct {
	Log       *telemetry.Settings
	AccessLog *accesslog.Settings
	Tracing   *tracing.Settings
	// Version is the version of the program.
	Version string
	// ClientIP returns the address of a request's client; invalid if it is unknown.
	ClientIP func(*http.Request) netip.Addr
	// Trusted reports whether the peer of a request may continue its trace.
	Trusted func(*http.Request) bool
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
}

// Decisions count and log the verdicts of all edges. Make them with Open. All methods are safe for concurrent use,
// except At and Close.
type Decisions struct {
	metrics     *telemetry.Metrics
	logger      *slog.Logger
	fingerprint func(sluice.Key) string
	denials     *telemetry.Denials
	denied      *live.DeniedKeys
	allowed     *live.AllowedKeys
	history     *live.History
	access      *accesslog.Log  // nil without one
	file        *logfile.File   // of access
	tracer      *tracing.Tracer // nil without one
}

// Open makes the logs and the tracer of the settings. Close is needed after an error too.
func Open(o Options) (*Decisions, error) {
	d := &Decisions{metrics: o.Metrics, logger: o.Logger}
	fingerprints, err := o.Log.Fingerprinter()
	if err != nil {
		return d, err
	}
	d.fingerprint = fingerprints.Fingerprint
	d.denials, d.denied = telemetry.NewDenials(o.Logger, o.Log.Sample, d.fingerprint), live.NewDeniedKeys(d.fingerprint)
	d.allowed = live.NewAllowedKeys(d.fingerprint)
	d.history = live.NewHistory(o.Metrics.Totals, time.Now())
	o.Metrics.Counter("sluice_denials_without_key_total", "Denials whose keys are not listed, because too many rules denied requests at once.",
		func() float64 { return float64(d.denied.Uncounted()) })
	o.Metrics.Counter("sluice_clock_set_back_total", "How often the clock of the machine was set back by more than a second.",
		func() float64 { return float64(d.history.ClockSetBack()) })
	if o.AccessLog.File != "" {
		if d.file, err = logfile.Open(o.AccessLog.File); err != nil {
			return d, fmt.Errorf("access_log.file: %w", err)
		}
		failures := sampled.New(o.Logger)
		d.access = accesslog.New(accesslog.Options{
			Out: d.file, Combined: o.AccessLog.Format == "combined", Sample: float64(o.AccessLog.Sample), Fingerprint: d.fingerprint,
			ClientIP: o.ClientIP,
			Failed:   func(err error) { failures.Error("the access log cannot be written", "error", err) },
		})
		o.Metrics.Counter("sluice_access_log_lost_total", "Decisions that were not written to the access log, because the disk was too slow or failed.",
			func() float64 { return float64(d.access.Lost()) })
	}
	if o.Tracing.Endpoint != "" {
		failures := sampled.New(o.Logger)
		d.tracer, err = tracing.New(context.Background(), tracing.Options{
			Endpoint: o.Tracing.Endpoint, Sample: float64(o.Tracing.Sample), Version: o.Version,
			Trusted: o.Trusted, ClientIP: o.ClientIP,
			Failed: func(err error) { failures.Error("traces cannot be sent", "error", err) },
		})
		if err != nil {
			return d, fmt.Errorf("tracing: %w", err)
		}
	}
	return d, nil
}

// At returns the function that counts and logs the final verdict about a request at an edge. The request is nil at an
// edge that has no HTTP request.
func (d *Decisions) At(edge telemetry.Edge) func(r *http.Request, v *policy.Verdict, took time.Duration) {
	d.metrics.Measure(edge)
	return func(r *http.Request, v *policy.Verdict, took time.Duration) {
		if d.access != nil {
			d.access.Observe(string(edge), r, v, took) // first, so that the time of the line is the end of what it took
		}
		d.metrics.Observe(edge, v, took)
		d.denials.Observe(edge, v)
		d.denied.Observe(v)
		d.allowed.Observe(v)
		if d.tracer != nil && r != nil {
			tracing.Decided(r, v, took)
		}
	}
}

// Fingerprint returns a name for a key that does not reveal the key.
func (d *Decisions) Fingerprint(key sluice.Key) string { return d.fingerprint(key) }

// Trace makes spans of requests, if tracing is on.
func (d *Decisions) Trace(next http.Handler) http.Handler {
	if d.tracer == nil {
		return next
	}
	return d.tracer.Wrap(next)
}

// History returns what each rule did lately.
func (d *Decisions) History() *live.History { return d.history }

// HistoryOf returns what a rule did in a span, in the form of the API. An empty rule means all rules.
func (d *Decisions) HistoryOf(rule, span string) *wire.History {
	now := time.Now()
	s, known := d.history.Of(rule, live.Span(max(0, slices.Index(live.SpanNames[:], span))), now)
	h := &wire.History{
		Rule: rule, AtMS: now.UnixMilli(), EndMS: s.End.UnixMilli(), StepMS: s.Step.Milliseconds(), Known: known, Steps: len(s.Steps),
		Figures: map[string][]uint32{},
	}
	for f, name := range telemetry.FigureNames {
		column, sum := make([]uint32, len(s.Steps)), uint64(0)
		for i := range s.Steps {
			column[i] = s.Steps[i][f]
			sum += uint64(column[i])
		}
		if sum > 0 {
			h.Figures[name] = column
		}
	}
	return h
}

// DeniedKeys returns the keys of a rule that were denied lately, or that only its candidate would have denied: up to
// most of both, and whether there are more, in the form of the API. The latest denial comes first. The policy is the
// one in force.
func (d *Decisions) DeniedKeys(p *policy.Policy, rule string, most int) ([]wire.DeniedKey, bool) {
	keys, more := d.denied.Latest(rule, most)
	newly, moreNewly := d.denied.Newly.Latest(rule, most)
	listed := deniedKeys(append(keys, newly...), p)
	slices.SortStableFunc(listed, func(a, b wire.DeniedKey) int { return cmp.Compare(a.LastMS, b.LastMS) })
	return listed[:min(most, len(listed))], more || moreNewly || len(listed) > most
}

// MostDenied returns the keys of a rule that are denied most, up to most of them, and whether there are more. After
// them come the keys that only its candidate would have denied, up to newly of them.
func (d *Decisions) MostDenied(p *policy.Policy, rule string, most, newly int) ([]wire.DeniedKey, bool) {
	keys, more := d.denied.Most(rule, most)
	tried, _ := d.denied.Newly.Most(rule, newly)
	return deniedKeys(append(keys, tried...), p), more
}

// Summary has the keys of a rule with the most denials, with the most requests that only its candidate would have
// denied, or with the most requests of the sample of allowed ones; and for each rule the most that another key may
// have.
type Summary struct {
	Keys   []wire.DeniedKey
	Missed map[string]uint64
}

// Summarize returns up to most keys of a rule that were denied most, that only its candidate would have denied, and
// that were allowed most.
func (d *Decisions) Summarize(p *policy.Policy, rule string, most int) (denied, newly, allowed Summary) {
	summarize := func(keys []live.DeniedKey, missed map[string]uint64) Summary {
		return Summary{deniedKeys(keys, p), missed}
	}
	return summarize(d.denied.Summary(rule, most)), summarize(d.denied.Newly.Summary(rule, most)), summarize(d.allowed.Summary(rule, most))
}

// HeavyKeys estimates the requests of keys of the sample, and returns up to most of them, the heaviest first. Keys that
// are in the sample too rarely for an estimate are left out.
func HeavyKeys(keys []wire.DeniedKey, most int) []wire.HeavyKey {
	heavy := []wire.HeavyKey{}
	for i := range keys {
		k := &keys[i]
		requests, within := live.Estimate(k.Denials, k.Error)
		if requests > within {
			heavy = append(heavy, wire.HeavyKey{Rule: k.Rule, Digest: k.Digest, Requests: requests, Within: within, FirstMS: k.FirstMS, LastMS: k.LastMS})
		}
	}
	slices.SortStableFunc(heavy, func(a, b wire.HeavyKey) int { return cmp.Compare(b.Requests, a.Requests) })
	return heavy[:min(most, len(heavy))]
}

// Sampled is how many allowed requests the sample has one of.
const Sampled = live.Sampled

// deniedKeys returns keys as the API has them. What a candidate would have denied is left out if it is not in force any
// more.
func deniedKeys(keys []live.DeniedKey, p *policy.Policy) []wire.DeniedKey {
	listed, now := []wire.DeniedKey{}, time.Now()
	for i := range keys {
		if k := &keys[i]; k.Role != policy.RoleCandidate || tries(p, k) {
			listed = append(listed, deniedKey(k, p, now))
		}
	}
	return listed
}

// tries reports whether the candidate that a key was compared with is in force.
func tries(p *policy.Policy, k *live.DeniedKey) bool {
	r := p.Rule(k.Rule)
	return r != nil && slices.Equal(r.Candidate, k.Candidate)
}

// deniedKey returns a key that was denied as the API has it.
func deniedKey(k *live.DeniedKey, p *policy.Policy, now time.Time) wire.DeniedKey {
	listed := wire.DeniedKey{
		Rule: k.Rule, Key: p.KeyValues(k.Rule, k.Key), Digest: k.Digest, Limit: k.Limit, Role: k.Role.String(),
		Reason: k.Reason.String(), Plan: k.Plan, Denials: k.Denials, Error: k.Error,
		FirstMS: max(0, now.Sub(k.First).Milliseconds()), LastMS: max(0, now.Sub(k.Last).Milliseconds()),
	}
	if k.Compared > 0 && tries(p, k) {
		listed.Candidate = &wire.Trial{Compared: k.Compared, WouldDeny: k.WouldDeny}
	}
	return listed
}

// Err returns why the access log cannot be written; nil if it can.
func (d *Decisions) Err() error {
	if d.file == nil {
		return nil
	}
	return d.file.Err()
}

// Close writes what is left of the access log, and sends the spans that are left.
func (d *Decisions) Close() {
	switch {
	case d.access != nil && !d.access.Close():
		d.logger.Error("the access log was not written to its end, because its reader takes nothing") // the file is in use
	case d.file != nil:
		_ = d.file.Close() // each line was written at once
	}
	if d.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.tracer.Close(ctx) // the collector may be gone
}
