package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// Decider decides about requests by a policy over a store. NewPolicyDecider makes a decider from the
// rules of a policy. NewKeyDecider makes one from limits that hold for each key, as a policy of one
// rule. The policy can be replaced while the decider is used. A Decider is safe for concurrent use.
//
// It decides about a request and charges it in one step, before the request is handled. Otherwise
// concurrent requests could pass that exceed a limit together.
type Decider struct {
	rules *policy.Decider
	o     PolicyOptions
	keyed bool // the rule reads only what its parts find in the request
	hosts bool // a rule or a part may read the host
	paths bool // a part may read the path, which policies of rules check themselves
	// last is the policy in force, with what the decider derives from it.
	last atomic.Pointer[inForce]
}

// PolicyOptions are the settings of NewPolicyDecider.
type PolicyOptions struct {
	// Policy holds the rules, and what happens to a request when the store cannot decide. Required.
	Policy *policy.Policy
	// Store keeps the state of the limits. Required.
	Store sluice.Store
	// ClientIP finds the address of the client. Default: the peer's address, without regard to
	// headers of proxies.
	ClientIP *ClientIP
	// Cost returns how many units a request takes from rules without a cost of their own. A request with cost zero
	// takes none, as in KeyOptions. A request with a negative cost is refused. Default: one unit.
	Cost func(r *http.Request) int64
	// MaxWait is the longest delay that is acceptable, sluice.NoWait for none. If the MaxWait of a rule
	// is shorter, the rule's holds. Default: the MaxWait of the rules.
	MaxWait time.Duration
	// Claim returns a claim of a request's token, for parts and conditions of rules. A program that
	// verifies tokens itself returns the verified claims. Default: BearerClaim, which verifies nothing.
	Claim func(r *http.Request, name string) (string, bool)
	// Attribute returns a value of the program's own, for parts and conditions of rules that
	// name an attribute. Default: there are none.
	Attribute func(r *http.Request, name string) (string, bool)
	// TrustMarks reports whether a request comes from a trusted hop, which may set the headers that
	// rules set on requests. Such headers then stay. The request counts as marked if it has
	// Sluice-Marked, or another header with which a rule of the policy marks requests. Recognize
	// hops by their address: see ClientIP.TrustsPeer. Trust only hops that remove such headers from the
	// requests of their own clients, as a Middleware does. Default: no hop is trusted, and such headers
	// are removed, because anybody can send them.
	TrustMarks func(r *http.Request) bool
	// TrustPlan reports whether the plan of a request counts that a header or a claim names: see
	// policy.Options.PlanFrom. Trust requests of hops that replace the header and verify the token, such as by
	// ClientIP.TrustsPeer, or all requests if Claim returns verified claims. The requests of DecideReport are trusted,
	// because the gateway reports them. Required with such a policy.
	TrustPlan func(r *http.Request) bool
	// Removes reports whether the program removes or replaces a header before the service gets the request, as a
	// proxy does. Rules and classes then count the header as missing: otherwise clients could choose keys by a value
	// that no service reads. Removes is called, with names in canonical form, for headers that proxies usually
	// remove or replace, such as X-Real-Ip, X-Forwarded-For and X-Http-Method-Override.
	// Default: all headers count.
	Removes func(r *http.Request, name string) bool
}

// NewPolicyDecider returns a decider by the rules of a policy.
// The error names the option, and what to give.
func NewPolicyDecider(o PolicyOptions) (*Decider, error) {
	switch {
	case o.Policy == nil:
		return nil, errors.New("httplimit: PolicyOptions.Policy is missing; give one that policy.New made")
	case o.Store == nil:
		return nil, errors.New("httplimit: PolicyOptions.Store is missing; give one such as memory.New makes")
	case o.MaxWait < 0 && o.MaxWait != sluice.NoWait:
		return nil, fmt.Errorf("httplimit: PolicyOptions.MaxWait is %v; give a positive time, 0 or sluice.NoWait", o.MaxWait)
	}
	if err := o.check(o.Policy); err != nil {
		return nil, err
	}
	rules, err := policy.NewDecider(o.Policy, o.Store)
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	o.Policy = nil // rules has the policy in force; an earlier one may go
	return &Decider{rules: rules, o: o, hosts: true}, nil
}

// check returns an error if an answer cannot be read, or if nothing says which requests may name their plan.
func (o *PolicyOptions) check(p *policy.Policy) error {
	if p.TrustsPlans() && o.TrustPlan == nil {
		return errors.New("httplimit: PolicyOptions.TrustPlan is missing, and a header or a claim names the plans of the policy; give a function that says which requests may do so, because clients could choose their plan")
	}
	return denial.CheckFiles(p)
}

// KeyOptions are the settings of NewKeyDecider.
type KeyOptions struct {
	// Store keeps the state of the limits. Required.
	Store sluice.Store
	// Limits are the limits of each key: one limit or more, with different names. A request passes if
	// all limits let it pass. All limits are charged, or none is. Required without LimitsFor.
	Limits []*sluice.Limit
	// LimitsFor returns other limits for a request, such as of a customer's plan, and nil for Limits. Without Limits,
	// such a request is refused. It must return limits that the program keeps, not new ones: see sluice.Limit. If they
	// have the names of Limits, used units stay used when the plan changes. Default: Limits for all requests.
	LimitsFor func(r *http.Request) []*sluice.Limit
	// Key is the parts of the request that distinguish clients, such as policy.ClientIP(), or policy.Header("X-API-Key")
	// and policy.Method(). Two requests have one key only if all parts are equal. policy.Param and policy.Route are the
	// wildcards and the pattern of an http.ServeMux, so the middleware must be inside the mux, around the handler. For
	// the program's own values, give Function. For one budget shared by everybody, give policy.Global(). Required.
	Key []policy.Part
	// ClientIP finds the address for policy.ClientIP(). Default: the peer's address, without regard to headers of
	// proxies. Behind a proxy all requests come from one peer.
	ClientIP *ClientIP
	// Cost returns how many units a request takes. A request with cost zero takes none and passes,
	// unless the key is banned or over its count. A request with a negative cost is refused. Default: one
	// unit.
	Cost func(r *http.Request) int64
	// MaxWait is the longest delay that is acceptable. A positive time lets requests wait for a token
	// bucket too; sluice.NoWait refuses any delay. Default: the delay that each limit offers by itself,
	// with the queue of a leaky bucket or of a concurrency limit.
	MaxWait time.Duration
	// Ban refuses a key outright for a time after too many denials. Default: no ban.
	Ban *sluice.Ban
	// BanShared lets denials ban a key that all clients share, such as a Constant. Default: such a ban is an
	// error. Denials of requests that lack a part of the key never lead to a ban.
	BanShared bool
	// OnStoreError is what happens to a request when the store cannot decide. Default: FallbackAllow,
	// because a limiter that fails should not take the service with it. Use FallbackDeny for work that
	// must not run unlimited, such as attempts to log in. FallbackLocal is not accepted. A request that
	// the store finds invalid is denied anyway.
	OnStoreError sluice.Fallback
}

// NewKeyDecider returns a decider by limits that hold for each key.
// The error names the option, and what to give.
func NewKeyDecider(o KeyOptions) (*Decider, error) {
	rules, err := edge(o.ClientIP).Decider(o.Store, policy.Rule{
		Limits: o.Limits, Key: o.Key, MaxWait: o.MaxWait, Ban: o.Ban, BanShared: o.BanShared, OnStoreError: o.OnStoreError,
	}, o.Cost, o.LimitsFor)
	if err != nil {
		return nil, err
	}
	d := &Decider{rules: rules, keyed: true}
	for _, p := range rules.Policy().Rules()[0].Key {
		switch p.Source {
		case source.Function, source.Route:
			d.hosts, d.paths = true, true
		case source.Host:
			d.hosts = true
		case policy.FromHeader:
			d.hosts = d.hosts || p.Name == "Host"
		case source.Path, source.Param:
			d.paths = true
		}
	}
	return d, nil
}

// Decide decides all limits of all rules that match r, in one step. It refuses requests that services read in
// different ways, whatever the rules are: a method with lower-case letters, a host that is not a host with an
// optional port, a target that is not a path, a control character in the path. Verdict.Refused is then a
// *policy.AttributeError. If the policy reads models, Decide reads the beginning of the body, and the next reader
// of r.Body gets it all the same. Limits for each key check the host and the path only if a part may read them.
func (d *Decider) Decide(r *http.Request) policy.Verdict {
	p := d.inForce()
	if p.ReadsModels() {
		if b := keepBody(nil, r, nil); b != nil {
			defer func() {
				if len(b.reads) == 0 {
					r.Body = b.ReadCloser // the server must find its own body
				}
			}()
		}
	}
	return d.decide(endToEnd(r, p.Policy), p)
}

func (d *Decider) decide(r *http.Request, p *inForce) policy.Verdict {
	if err := checkRequest(r, d.hosts, d.paths); err != nil {
		return refusal(err)
	}
	return d.decideChecked(r, p, nil, p.trusts && d.o.TrustPlan(r))
}

// decideChecked decides about a request that needs no further checks. The argument others has the lines of headers in
// other spellings, if nobody removes them from the request. The argument plan says that the request may name its plan.
func (d *Decider) decideChecked(r *http.Request, p *inForce, others http.Header, plan bool) policy.Verdict {
	if d.o.Removes != nil {
		r = d.arriving(r, p)
	}
	own := ownValues{values{r}, d.o.Claim, d.o.Attribute}
	names := p.readOnce(r)
	if d.keyed {
		a := policy.Attributes{Values: values{r}, RequestBytes: r.ContentLength}
		switch {
		case names != nil:
			a.Values, a.ReadOnce = &longValues{reportedValues: reportedValues{own, others}, names: names}, true
		case len(others) > 0:
			a.Values = &reportedValues{own, others}
		}
		return p.Decide(r.Context(), d.Store(), &a)
	}
	a := Attributes(r, d.o.ClientIP)
	a.MaxWait, a.TrustPlan = d.o.MaxWait, plan
	switch {
	case names != nil:
		a.ReadOnce = true
		a.Values = &longValues{reportedValues: reportedValues{own, others}, names: names}
	case len(others) > 0:
		a.Values = &reportedValues{own, others}
	case d.o.Claim != nil || d.o.Attribute != nil:
		a.Values = own
	}
	if d.o.TrustMarks != nil && hasMark(r, p.Policy) {
		a.Marked = d.o.TrustMarks(r)
	}
	if d.o.Cost != nil {
		if a.Cost = d.o.Cost(r); a.Cost == 0 {
			a.Cost = policy.NoCost
		}
	}
	return p.Decide(r.Context(), d.Store(), &a)
}

// Rules returns the policy and store behind d, for edges that describe requests themselves.
func (d *Decider) Rules() *policy.Decider { return d.rules }

// Policy returns the policy in force.
func (d *Decider) Policy() *policy.Policy { return d.rules.Policy() }

// SetPolicy replaces the policy. Requests that are being decided keep the earlier one. It returns an error, and changes
// nothing, for a nil policy and for a policy with a file that cannot be read.
func (d *Decider) SetPolicy(p *policy.Policy) error {
	if p != nil {
		if err := d.o.check(p); err != nil {
			return err
		}
	}
	if err := d.rules.SetPolicy(p); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}

// Store returns the store of the options.
func (d *Decider) Store() sluice.Store { return d.rules.Store() }

// Reserved returns the names, in canonical form, of the headers that pass the verdict of the rules to
// the service behind. A Middleware removes them from the client's request, trailers included. Reserved
// returns nil if r comes from a hop that may set them, and for a decider of NewKeyDecider.
func (d *Decider) Reserved(r *http.Request) []string { return d.reserved(r, d.Policy()) }

func (d *Decider) reserved(r *http.Request, p *policy.Policy) reserved {
	if d.keyed || d.o.TrustMarks != nil && d.o.TrustMarks(r) {
		return nil
	}
	return p.ReservedHeaders()
}

// hasMark reports whether a request has a header that marks it: Sluice-Marked, or a header
// with which a rule of the policy marks requests. Anybody can send such a header.
func hasMark(r *http.Request, p *policy.Policy) bool {
	return slices.ContainsFunc(p.MarkHeaders(), func(name string) bool { return len(r.Header[name]) > 0 })
}

// PerClient returns middleware that gives each client address a rate such as "100/m", in a token
// bucket, over a memory store of its own. It is all that many services need:
//
//	limit, err := httplimit.PerClient("100/m")
//	…
//	http.ListenAndServe(address, limit(mux))
//
// The client is the peer of the connection; an IPv6 client is its /64 network. No header that a client
// can write chooses another budget. Behind a proxy all requests come from one peer: use NewKeyDecider
// there, with a ClientIP.
// The error reports a rate that is not one.
func PerClient(rate string) (func(next http.Handler) http.Handler, error) {
	r, err := sluice.ParseRate(rate)
	if err != nil {
		return nil, fmt.Errorf("httplimit: PerClient: %w", err)
	}
	limit, err := sluice.NewLimit("per-client", sluice.TokenBucket{Rate: r})
	if err != nil {
		return nil, fmt.Errorf("httplimit: PerClient: %w", err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		return nil, fmt.Errorf("httplimit: PerClient: %w", err)
	}
	decider, err := NewKeyDecider(KeyOptions{Store: store, Limits: []*sluice.Limit{limit}, Key: []policy.Part{policy.ClientIP()}})
	if err != nil {
		return nil, err
	}
	m, err := New(decider, Options{})
	if err != nil {
		return nil, err
	}
	return m.Wrap, nil
}
