package app

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// engine has the parts that all edges share: one decider, one gate, and the metrics and logs of
// decisions.
type engine struct {
	decider *httplimit.Decider
	gate    *gate.Gate
	metrics *telemetry.Metrics
	denials *telemetry.Denials
	denied  *telemetry.DeniedKeys
	access  *accesslog.Log  // nil without one
	tracer  *tracing.Tracer // nil without one
}

// observe counts and logs the final verdict about a request. The argument r is nil at an edge that has no HTTP request.
func (e *engine) observe(edge telemetry.Edge, r *http.Request, v *policy.Verdict, took time.Duration) {
	e.metrics.Observe(edge, v, took)
	e.denials.Observe(edge, v)
	e.denied.Observe(v)
	if e.tracer != nil && r != nil {
		tracing.Decided(r, v, took)
	}
	if e.access != nil {
		e.access.Observe(string(edge), r, v, took)
	}
}

// limiter returns an edge's middleware. Its decisions are counted and logged when the gate has let the
// request pass or refused it.
func (e *engine) limiter(edge telemetry.Edge, o httplimit.Options) (*httplimit.Middleware, error) {
	o.Gate = e.gate
	o.OnVerdict = func(r *http.Request, v *policy.Verdict, took time.Duration) { e.observe(edge, r, v, took) }
	return httplimit.New(e.decider, o)
}

// answered returns a function for each verdict that an edge gives to another program, which carries it out.
func (e *engine) answered(edge telemetry.Edge) func(*policy.Verdict, time.Duration) {
	return func(v *policy.Verdict, took time.Duration) {
		e.observe(edge, nil, v, took)
		e.gate.Observe(v)
	}
}

// ruleNames returns the names of all rules.
func (e *engine) ruleNames() []string {
	rules := e.decider.Policy().Rules()
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Name
	}
	return names
}

// deniedKeys returns the keys that were denied lately, in the form of the API.
func (e *engine) deniedKeys(rule string, most int) ([]wire.DeniedKey, bool) {
	keys, more := e.denied.List(rule, most)
	listed, now := make([]wire.DeniedKey, len(keys)), time.Now()
	for i := range keys {
		listed[i] = deniedKey(&keys[i], e.decider.Policy(), now)
	}
	return listed, more
}

// deniedKey returns a key that was denied as the API has it. The policy is the one in force.
func deniedKey(k *telemetry.DeniedKey, p *policy.Policy, now time.Time) wire.DeniedKey {
	return wire.DeniedKey{
		Rule: k.Rule, Key: p.KeyValues(k.Rule, k.Key), Digest: k.Digest, Limit: k.Limit, Role: k.Role.String(),
		Reason: k.Reason.String(), Denials: k.Denials, LastMS: max(0, now.Sub(k.Last).Milliseconds()),
	}
}

// compile makes the policy of a configuration. The argument earlier is the policy that it replaces,
// nil for none. Rules can depend on the pressure on other rules.
func (a *App) compile(f *config.File, earlier *policy.Policy) (*policy.Policy, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return nil, err
	}
	o.Pressure, o.Earlier = a.pressure, earlier
	return policy.New(o)
}

// openGate makes the gate that all edges share, over the store.
func (a *App) openGate() (err error) {
	o := gate.Options{Window: a.o.Window, OnError: func(_ context.Context, err error) { a.storeFailed(err) }}
	o.Share = shareOf(a.file)
	a.gate, err = gate.New(a.store, o)
	return err
}

// fingerprinter makes the fingerprints of keys in the log. Servers with the same secret have the same ones.
func fingerprinter(l *telemetry.Settings) (*telemetry.Fingerprinter, error) {
	text, err := secret.ReadLong("log.key_secret", l.KeySecretFile, l.KeySecretEnv)
	if err != nil {
		return nil, err
	}
	return telemetry.NewFingerprinter(text), nil
}

// shareOf returns this process's part of each limit. Each of several processes gets only its part of the demand.
func shareOf(f *config.File) float64 {
	if r := f.Store.Redis; r != nil && r.Local.Share.Parts > 0 {
		return float64(r.Local.Share.Of) / float64(r.Local.Share.Parts)
	}
	return 1
}
