package app

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/api"
	"github.com/sluicehq/sluice/server/internal/telemetry"
)

// engine decides for all edges by one policy over one store, and has what it
// decides counted and logged.
type engine struct {
	decider *httplimit.PolicyDecider
	store   sluice.Store
	gate    *gate.Gate
	metrics *telemetry.Metrics
	denials *telemetry.Denials
}

var (
	_ api.Decider       = (*engine)(nil)
	_ httplimit.Decider = proxied{}
)

func (e *engine) observe(edge telemetry.Edge, v *policy.Verdict, began time.Time) {
	e.metrics.Observe(edge, v, time.Since(began))
	e.denials.Observe(edge, v)
}

// answered is what becomes of a verdict that the API gives to another program, which carries
// it out.
func (e *engine) answered(v *policy.Verdict, began time.Time) {
	e.observe(telemetry.EdgeAPI, v, began)
	e.gate.Observe(v)
}

// Decide decides about a request that the API was told of.
func (e *engine) Decide(ctx context.Context, a *policy.Attributes) policy.Verdict {
	began := time.Now()
	v := e.decider.Policy().Decide(ctx, e.store, a)
	e.answered(&v, began)
	return v
}

// Peek decides and takes nothing; it is not counted, for nothing passes by it.
func (e *engine) Peek(ctx context.Context, a *policy.Attributes) policy.Verdict {
	return e.decider.Policy().Peek(ctx, e.store, a)
}

// DecideRule decides about one rule and key.
func (e *engine) DecideRule(ctx context.Context, q policy.RuleRequest) (policy.Verdict, error) {
	began := time.Now()
	v, err := e.decider.Policy().DecideRule(ctx, e.store, q)
	if err == nil && !q.Peek {
		e.answered(&v, began)
	}
	return v, err
}

// Meets returns the limits that a request meets.
func (e *engine) Meets(a *policy.Attributes) []policy.LimitResult { return e.decider.Policy().Meets(a) }

// Rules returns all rules there are.
func (e *engine) Rules() []*policy.Rule { return e.decider.Policy().Rules() }

// ruleNames returns their names.
func (e *engine) ruleNames() []string {
	rules := e.Rules()
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Name
	}
	return names
}

// ResetRule forgets a key of a rule.
func (e *engine) ResetRule(ctx context.Context, rule string, key ...string) error {
	return e.decider.Policy().Reset(ctx, e.store, rule, key...)
}

// proxied is the engine as the proxy's middleware asks it.
type proxied struct{ *engine }

// Decide decides about a request that came in.
func (p proxied) Decide(r *http.Request) policy.Verdict {
	began := time.Now()
	v := p.decider.Decide(r)
	p.observe(telemetry.EdgeProxy, &v, began)
	return v
}

// Reserved are the headers that only the rules set on requests.
func (p proxied) Reserved(r *http.Request) []string { return p.decider.Reserved(r) }

// Store is where what the verdicts took is ended.
func (p proxied) Store() sluice.Store { return p.store }
