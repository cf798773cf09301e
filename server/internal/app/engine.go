package app

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/api"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// engine decides for all edges by one policy over one store. It counts and logs the decisions.
type engine struct {
	decider *httplimit.PolicyDecider
	store   sluice.Store
	gate    *gate.Gate
	metrics *telemetry.Metrics
	denials *telemetry.Denials
	denied  *telemetry.DeniedKeys
}

var _ api.Decider = (*engine)(nil)

// observe counts and logs the final verdict about a request.
func (e *engine) observe(edge telemetry.Edge, v *policy.Verdict, took time.Duration) {
	e.metrics.Observe(edge, v, took)
	e.denials.Observe(edge, v)
	e.denied.Observe(v)
}

// limiter returns the proxy's middleware. Its decisions are counted and logged when the gate has let the
// request pass or refused it.
func (e *engine) limiter(o httplimit.Options) (*httplimit.Middleware, error) {
	o.Gate = e.gate
	o.OnVerdict = func(_ *http.Request, v *policy.Verdict, took time.Duration) { e.observe(telemetry.EdgeProxy, v, took) }
	return httplimit.New(e.decider, o)
}

// answered counts and logs a verdict that another program enforces.
func (e *engine) answered(v *policy.Verdict, began time.Time) {
	e.observe(telemetry.EdgeAPI, v, time.Since(began))
	e.gate.Observe(v)
}

// Decide decides about a request that a caller of the API describes.
func (e *engine) Decide(ctx context.Context, a *policy.Attributes) policy.Verdict {
	began := time.Now()
	v := e.decider.Policy().Decide(ctx, e.store, a)
	e.answered(&v, began)
	return v
}

// Peek decides and charges nothing. It is not counted, because no request passes by it.
func (e *engine) Peek(ctx context.Context, a *policy.Attributes) policy.Verdict {
	return e.decider.Policy().Peek(ctx, e.store, a)
}

// DecideRule decides about a key of one rule.
func (e *engine) DecideRule(ctx context.Context, q policy.RuleRequest) (policy.Verdict, error) {
	began := time.Now()
	v, err := e.decider.Policy().DecideRule(ctx, e.store, q)
	if err == nil && !q.Peek {
		e.answered(&v, began)
	}
	return v, err
}

// Meets returns the limits that apply to a request.
func (e *engine) Meets(a *policy.Attributes) []policy.LimitResult { return e.decider.Policy().Meets(a) }

// Rules returns all rules of the policy.
func (e *engine) Rules() []*policy.Rule { return e.decider.Policy().Rules() }

// ruleNames returns the names of all rules.
func (e *engine) ruleNames() []string {
	rules := e.Rules()
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Name
	}
	return names
}

// deniedKeys returns the keys that were denied lately, in the form of the API.
func (e *engine) deniedKeys(rule string, most int) ([]api.DeniedKey, bool) {
	keys, more := e.denied.List(rule, most)
	listed := make([]api.DeniedKey, len(keys))
	for i := range keys {
		listed[i] = api.DeniedKey(keys[i])
	}
	return listed, more
}

// ResetRule forgets the state of a key of a rule.
func (e *engine) ResetRule(ctx context.Context, rule string, key ...string) error {
	return e.decider.Policy().Reset(ctx, e.store, rule, key...)
}

// Ban bans a key of a rule by hand.
func (e *engine) Ban(ctx context.Context, d time.Duration, rule string, key ...string) error {
	return e.decider.Policy().Ban(ctx, e.store, d, rule, key...)
}

// LiftBan ends the ban of a key of a rule.
func (e *engine) LiftBan(ctx context.Context, rule string, key ...string) (bool, error) {
	return e.decider.Policy().LiftBan(ctx, e.store, rule, key...)
}

// ListBans returns a page of the bans in force.
func (e *engine) ListBans(ctx context.Context, q sluice.BanQuery) ([]policy.BannedKey, string, error) {
	return e.decider.Policy().ListBans(ctx, e.store, q)
}

// KeyValues returns the values of a key of a rule.
func (e *engine) KeyValues(rule string, k sluice.Key) []string {
	return e.decider.Policy().KeyValues(rule, k)
}

// compile makes the policy of a configuration. Its rules can match on the pressure on other rules.
func (a *App) compile(f *policyfile.File) (*policy.Policy, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return nil, err
	}
	o.Pressure = a.pressure
	return policy.New(o)
}

// openGate makes the gate that all edges share, over the store.
func (a *App) openGate() (err error) {
	o := gate.Options{Window: a.o.Window, OnError: func(_ context.Context, err error) { a.storeFailed(err) }}
	if r := a.file.Store.Redis; r != nil && r.Local.Share.Parts > 0 {
		// Each of several processes gets only its part of the demand.
		o.Share = float64(r.Local.Share.Of) / float64(r.Local.Share.Parts)
	}
	a.gate, err = gate.New(a.store, o)
	return err
}
