package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/edge/api"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
	"github.com/sluicehq/sluice/server/internal/edge/resp"
	"github.com/sluicehq/sluice/server/internal/observe"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/sampled"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/store"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// engine has the parts that all edges share: one store, one decider, one gate, and what counts and logs decisions.
type engine struct {
	file      *config.File // at the start
	logger    *slog.Logger
	metrics   *telemetry.Metrics
	store     *store.Store
	pipelines *pipeline.Pipelines // decides questions that arrive together; nil if the store is in this process
	gate      *gate.Gate
	ip        *httplimit.ClientIP
	marks     atomic.Bool // trust_marks
	decider   *httplimit.Decider
	headers   *httplimit.Headers
	decisions *observe.Decisions
	// descriptors are counted for gateways.
	descriptors *telemetry.Descriptors
	api         *api.API
	overrides   *policy.OverrideTable // by call

	storeLog   *sampled.Log // errors of the store
	answerLog  *sampled.Log // answers that cannot be sent
	gatewayLog *sampled.Log // unusable requests of gateways
}

// open makes the parts, from the store up. The method close is needed after an error too.
func (e *engine) open(o *Options) error {
	f := e.file
	e.storeLog, e.answerLog, e.gatewayLog = sampled.New(e.logger), sampled.New(e.logger), sampled.New(e.logger)
	e.overrides = policy.NewOverrideTable()
	rules, err := e.compile(f, nil)
	if err != nil {
		return err
	}
	e.descriptors = telemetry.NewDescriptors(e.metrics, float64(f.NearLimit))
	e.count(rules)
	e.store, err = store.Open(store.Options{
		Memory: &f.Store.Memory, Redis: f.Store.Redis, Overrides: e.overrides, Policy: rules, Logger: e.logger, Metrics: e.metrics, Failed: e.storeFailed,
	})
	if err != nil {
		return err
	}
	if r := f.Store.Redis; r != nil {
		e.pipelines = pipeline.New(e.store.Decides, r.InFlight, r.Cluster)
	}
	e.gate, err = gate.New(e.store.Decides, gate.Options{
		Window: o.Window, Share: store.Share(f.Store.Redis), OnError: func(_ context.Context, err error) { e.storeFailed(err) },
	})
	if err != nil {
		return err
	}
	e.metrics.Pressure(e.pressure)
	networks, unix := f.Trusted()
	if e.ip, err = httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: networks, TrustUnix: unix, IPv6Prefix: f.IPv6Prefix}); err != nil {
		return err
	}
	deciding := httplimit.PolicyOptions{Policy: rules, Store: e.store.Decides, ClientIP: e.ip, Removes: e.removes}
	e.marks.Store(f.TrustMarks)
	deciding.TrustMarks = func(r *http.Request) bool { return e.marks.Load() && e.ip.TrustsPeer(r) }
	deciding.TrustPlan = e.ip.TrustsPeer
	if e.decider, err = httplimit.NewPolicyDecider(deciding); err != nil {
		return err
	}
	if e.headers, err = httplimit.NewHeaders(headersOf(f)); err != nil {
		return err
	}
	e.decisions, err = observe.Open(observe.Options{
		Log: &f.Log, AccessLog: &f.AccessLog, Tracing: &f.Tracing, Version: o.Version,
		ClientIP: e.clientIP, Trusted: e.ip.TrustsPeer, Logger: e.logger, Metrics: e.metrics,
	})
	return err
}

// openAPI makes the decision API.
func (e *engine) openAPI(callers *access.Callers, log *audit.Log, denied func(context.Context, string, int) wire.Keys) (err error) {
	e.api, err = api.New(api.Options{
		Decider: e.decider.Rules(), Pipelines: e.pipelines, OnVerdict: e.answered("api"), Fingerprint: e.decisions.Fingerprint,
		Headers: e.headers, Pressure: e.pressure,
		DeniedKeys: denied,
		Hybrid: func(rule string, most int) wire.Hybrid {
			return e.store.ListHybrid(rule, most, e.decisions.Fingerprint)
		},
		Overrides:    e.store.Overrides,
		AnswerFailed: e.answerFailed, Authorize: callers.Authorize, Reveals: callers.Reveals,
		BeforeChange: func(r *http.Request, c api.Change) error { return log.Begin(r, audit.Change(c)) },
		OnChange:     func(r *http.Request, c api.Change) { log.Changed(r, audit.Change(c)) },
		MaxBody:      int64(e.file.HTTP.MaxBodySize),
	})
	if err != nil {
		return err
	}
	e.metrics.Gauge("sluice_reservations_open", "Reservations of the decision API that are open.",
		func() float64 { return float64(e.api.Open()) })
	e.metrics.Counter("sluice_reservations_expired_total", "Reservations that expired.",
		func() float64 { return float64(e.api.Expired()) })
	return nil
}

// decisionAPI returns the handler of the listener api.
func (e *engine) decisionAPI(rules *access.Rules) (http.Handler, error) {
	return rules.Protect(e.api), nil
}

// compile makes the policy of a configuration. The argument earlier is the policy that it replaces,
// nil for none. Rules can depend on the pressure on other rules.
func (e *engine) compile(f *config.File, earlier *policy.Policy) (*policy.Policy, error) {
	o, err := f.PolicyOptions()
	if err != nil {
		return nil, err
	}
	o.Pressure, o.Earlier, o.Overrides, o.Terms = e.pressure, earlier, e.overrides, f.Terms
	return policy.New(o)
}

// setPolicy puts the policy and the live settings of a configuration in force.
func (e *engine) setPolicy(f *config.File, rules *policy.Policy) error {
	if err := e.store.SetShare(f.Store.Redis); err != nil {
		return err
	}
	if err := e.gate.SetShare(store.Share(f.Store.Redis)); err != nil {
		return err
	}
	if err := e.ip.SetTrusted(f.Trusted()); err != nil {
		return err
	}
	// From here on nothing fails.
	e.marks.Store(f.TrustMarks)
	e.descriptors.SetNear(float64(f.NearLimit))
	e.store.SetPolicy(rules)
	e.count(rules)
	_ = e.decider.SetPolicy(rules) // refuses only nil
	e.gate.Forget(func(rule string) bool { return rules.Rule(rule) == nil && rule != resp.ThrottleName })
	return nil
}

// count makes the metrics of the rules of a policy, and of the rule of CL.THROTTLE if clients of Redis can give it.
func (e *engine) count(rules *policy.Policy) {
	e.descriptors.SetRules(rules.Rules())
	if e.file.Listen.RESP.Off() {
		e.metrics.SetRules(rules.Rules())
		return
	}
	e.metrics.SetRules(append(slices.Clone(rules.Rules()), resp.ThrottleRule()))
}

// answered returns a function for each verdict that an edge gives to another program, which carries it out.
func (e *engine) answered(edge telemetry.Edge) func(*policy.Verdict, time.Duration) {
	observe := e.decisions.At(edge)
	return func(v *policy.Verdict, took time.Duration) {
		observe(nil, v, took)
		e.gate.Observe(v)
	}
}

// limiter returns an edge's middleware. Its decisions are counted and logged when the gate has let the
// request pass or refused it.
func (e *engine) limiter(edge telemetry.Edge, o httplimit.Options) (*httplimit.Middleware, error) {
	o.Gate, o.OnVerdict = e.gate, e.decisions.At(edge)
	return httplimit.New(e.decider, o)
}

// pressure returns the pressure on a rule, which the gate measures for all edges.
func (e *engine) pressure(rule string) float64 { return e.gate.Pressure(rule) }

// ruleNames returns the names of all rules.
func (e *engine) ruleNames() []string {
	rules := e.decider.Policy().Rules()
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.Name
	}
	return names
}

// removes reports whether a service does not get a header of a request as it came. Headers that only proxies set count from
// trusted ones.
func (e *engine) removes(r *http.Request, name string) bool {
	why := removal.Of(name)
	return !why.FromClients(e.file.Upstream.MethodOverride) && (!why.FromProxies() || !e.ip.TrustsPeer(r))
}

// clientIP returns the address of a request's client; invalid if it is unknown.
func (e *engine) clientIP(r *http.Request) netip.Addr {
	addr, _ := e.ip.Addr(r)
	return addr
}

// storeFailed logs an error of the store that failed no request.
func (e *engine) storeFailed(err error) { e.storeLog.Error("the store failed", "error", err) }

// answerFailed logs why a request did not get the answer of its rule, if there is an error. For
// example, a file that existed when the configuration was read is gone, or cannot be read any more.
func (e *engine) answerFailed(err error) {
	if err != nil {
		e.answerLog.Error("the answer of a rule cannot be sent; a problem document is sent instead", "error", err)
	}
}

// close closes the parts that are open.
func (e *engine) close() {
	if e.api != nil {
		e.api.Close()
	}
	e.pipelines.Close()
	if e.store != nil {
		e.store.Close()
	}
	if e.decisions != nil {
		e.decisions.Close()
	}
}

// headersOf returns which rate-limit headers clients get.
func headersOf(f *config.File) httplimit.HeaderOptions {
	n := &f.HeaderNames
	return httplimit.HeaderOptions{Profile: profiles[f.Headers], Names: [3]string{n.Limit, n.Remaining, n.Reset}, Jitter: f.Jitter}
}

// profiles are the header profiles that a file can name.
var profiles = map[config.HeaderProfile]httplimit.Profile{
	"":                             httplimit.ProfileIETF,
	config.HeadersIETF:             httplimit.ProfileIETF,
	config.HeadersXRateLimit:       httplimit.ProfileXRateLimit,
	config.HeadersXRateHyphenLimit: httplimit.ProfileXRateLimitDashed,
	config.HeadersRateLimit:        httplimit.ProfileRateLimit,
	config.HeadersOpenAI:           httplimit.ProfileOpenAI,
	config.HeadersNone:             httplimit.ProfileNone,
}
