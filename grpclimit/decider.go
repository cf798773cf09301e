package grpclimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// Decider decides about calls by a policy over a store. NewPolicyDecider makes a decider from the rules
// of a policy. NewKeyDecider makes one from limits that hold for each key, as a policy of one rule. A
// Server or a Client uses it, and several can share it. The policy can be replaced while the decider is
// used. A Decider is safe for concurrent use.
type Decider struct {
	rules *policy.Decider
	o     PolicyOptions
	keyed bool // the rule reads only what its parts find in the call
	hosts bool // a rule or a part reads the authority

	mu   sync.Mutex
	uses uses
}

// PolicyOptions are the settings of NewPolicyDecider.
type PolicyOptions struct {
	// Policy holds the rules, and what happens to a call when the store cannot decide. Required.
	Policy *policy.Policy
	// Store keeps the state of the limits. Required.
	Store sluice.Store
	// ClientIP finds the address of the client. Default: the peer's address, without regard to metadata
	// of proxies.
	ClientIP *httplimit.ClientIP
	// Cost returns how many units a call or message takes from rules without a cost of their own. With cost zero
	// it takes none, as in KeyOptions. A call with a negative cost is refused. Default: one unit.
	Cost func(c *Call) int64
	// MaxWait is the longest delay that is acceptable, sluice.NoWait for none. If the MaxWait of a rule
	// is shorter, the rule's holds. Default: the MaxWait of the rules; on a client, ClientOptions.MaxDelay.
	MaxWait time.Duration
	// Claim returns a claim of a call's token, for parts and conditions of rules. A program that verifies
	// tokens itself returns the verified claims. Default: the claims of the bearer token in the metadata
	// key authorization, which nobody has verified: see httplimit.BearerClaim.
	Claim func(c *Call, name string) (string, bool)
	// Attribute returns a value of the program's own, for parts and conditions of rules that name an
	// attribute. Default: there are none.
	Attribute func(c *Call, name string) (string, bool)
	// TrustMarks reports whether a call comes from a trusted hop, which may set the metadata that rules
	// set on calls. Such metadata then stays, and the call counts as marked if it has metadata with which
	// rules mark. Default: a Server removes such metadata, because anybody can send it.
	TrustMarks func(c *Call) bool
	// TrustPlan reports whether the plan of a call counts that a metadata key or a claim names, as in
	// httplimit.PolicyOptions. Required with such a policy.
	TrustPlan func(c *Call) bool
}

// NewPolicyDecider returns a decider by the rules of a policy.
// The error names the option, and what to give.
func NewPolicyDecider(o PolicyOptions) (*Decider, error) {
	switch {
	case o.Policy == nil:
		return nil, errors.New("grpclimit: PolicyOptions.Policy is missing; give one that policy.New made")
	case o.Store == nil:
		return nil, errors.New("grpclimit: PolicyOptions.Store is missing; give one such as memory.New makes")
	case o.MaxWait < 0 && o.MaxWait != sluice.NoWait:
		return nil, fmt.Errorf("grpclimit: PolicyOptions.MaxWait is %v; give a positive time, 0 or sluice.NoWait", o.MaxWait)
	}
	if err := o.checkPlans(o.Policy); err != nil {
		return nil, err
	}
	rules, err := policy.NewDecider(o.Policy, o.Store)
	if err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	return &Decider{rules: rules, o: o, hosts: true}, nil
}

// checkPlans returns an error if nothing says which calls may name their plan.
func (o *PolicyOptions) checkPlans(p *policy.Policy) error {
	if p.TrustsPlans() && o.TrustPlan == nil {
		return errors.New("grpclimit: PolicyOptions.TrustPlan is missing, and metadata or a claim names the plans of the policy; give a function that says which calls may do so, because clients could choose their plan")
	}
	return nil
}

// KeyOptions are the settings of NewKeyDecider.
type KeyOptions struct {
	// Store keeps the state of the limits. Required.
	Store sluice.Store
	// Limits are the limits of each key: one limit or more, with different names. A call passes if all
	// limits let it pass. All limits are charged, or none is. Required without LimitsFor.
	Limits []*sluice.Limit
	// LimitsFor returns other limits for a call or message, such as of a customer's plan, and nil for Limits. Without
	// Limits, such a call is refused. It must return limits that the program keeps, not new ones: see sluice.Limit. If
	// they have the names of Limits, used units stay used when the plan changes. Default: Limits for all calls.
	LimitsFor func(c *Call) []*sluice.Limit
	// Key is the parts of the call that distinguish clients, such as policy.ClientIP(), or a Metadata key and the
	// Method. Two calls have one key only if all parts are equal. policy.Host() is the authority, which calls of a
	// client lack. For the program's own values, give Function. For one budget shared by everybody, give
	// policy.Global(). Required.
	Key []policy.Part
	// ClientIP finds the address for policy.ClientIP(). Default: the peer's address, without regard to metadata of
	// proxies.
	ClientIP *httplimit.ClientIP
	// Cost returns how many units a call or message takes. With cost zero it takes none and passes,
	// unless the key is banned or over its count. A call with a negative cost is refused. Default: one unit.
	Cost func(c *Call) int64
	// MaxWait is the longest delay that is acceptable. A positive time lets calls wait for a token bucket
	// too; sluice.NoWait refuses any delay. Default: the delay that each limit offers by itself, with the
	// queue of a leaky bucket or of a concurrency limit; on a client, ClientOptions.MaxDelay.
	MaxWait time.Duration
	// Ban refuses a key outright for a time after too many denials. Default: no ban.
	Ban *sluice.Ban
	// BanShared lets denials ban a key that all clients share, such as a Constant. Default: such a ban is
	// an error. Denials of calls that lack a part of the key never lead to a ban.
	BanShared bool
	// OnStoreError is what happens to a call when the store cannot decide. Default: FallbackAllow,
	// because a limiter that fails should not take the service with it. Use FallbackDeny for work that
	// must not run unlimited. FallbackLocal is not accepted.
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
	hosts := slices.ContainsFunc(o.Key, func(p policy.Part) bool { return p.Source == source.Host })
	return &Decider{rules: rules, keyed: true, hosts: hosts}, nil
}

// decide decides all limits of all rules that match a call, in one step. most is the longest delay
// that the caller accepts, zero for no choice.
func (d *Decider) decide(c *Call, most time.Duration) policy.Verdict {
	c.decider = d
	if err := d.check(c); err != nil {
		v := policy.Verdict{Refused: err}
		v.Deny(sluice.ReasonNever, nil, nil)
		return v
	}
	p := d.Policy()
	a := policy.Attributes{Values: (*values)(c), MaxWait: most}
	if d.keyed {
		return p.Decide(c.ctx, d.Store(), &a)
	}
	a.Method, a.Host, a.Path = http.MethodPost, c.Authority(), c.Method
	a.ClientIP, _ = d.o.ClientIP.AddrOf(c.Peer(), c.Metadata)
	if own := d.o.MaxWait; own != 0 && (most == 0 || own < most) {
		a.MaxWait = own
	}
	a.TrustPlan = p.TrustsPlans() && d.o.TrustPlan(c)
	if d.o.TrustMarks != nil && hasMark(c, p) {
		a.Marked = d.o.TrustMarks(c)
	}
	if d.o.Cost != nil {
		if a.Cost = d.o.Cost(c); a.Cost == 0 {
			a.Cost = policy.NoCost
		}
	}
	return p.Decide(c.ctx, d.Store(), &a)
}

// check returns a *policy.AttributeError for a call that services read in different ways.
func (d *Decider) check(c *Call) error {
	if err := policy.CheckPath(c.Method); err != nil {
		return err
	}
	if !d.hosts {
		return nil
	}
	return policy.CheckHost(c.Authority())
}

// hasMark reports whether a call has metadata by which the policy marks calls. Anybody can send it.
func hasMark(c *Call, p *policy.Policy) bool {
	return slices.ContainsFunc(p.MarkHeaders(), func(name string) bool { return len(c.Metadata(name)) > 0 })
}

// reserved returns the metadata that only rules may set on calls, or nil if the call comes from a hop
// that may set it.
func (d *Decider) reserved(c *Call, p *policy.Policy) []string {
	if d.keyed || d.o.TrustMarks != nil && d.o.TrustMarks(c) {
		return nil
	}
	return p.ReservedHeaders()
}

// Policy returns the policy in force.
func (d *Decider) Policy() *policy.Policy { return d.rules.Policy() }

// SetPolicy replaces the policy. Calls that are being decided keep the earlier one. It returns an error, and changes
// nothing, for a nil policy and for a policy that a Server or Client of the decider cannot carry out.
func (d *Decider) SetPolicy(p *policy.Policy) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p != nil {
		if err := errors.Join(check(p, d.uses, "SetPolicy"), d.o.checkPlans(p)); err != nil {
			return err
		}
	}
	if err := d.rules.SetPolicy(p); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}

// use checks that the policy can be carried out, now and whenever it is replaced. at is the function or
// field that got the decider.
func (d *Decider) use(u uses, at string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := check(d.Policy(), d.uses|u, at); err != nil {
		return err
	}
	d.uses |= u
	return nil
}

// Store returns the store of the options.
func (d *Decider) Store() sluice.Store { return d.rules.Store() }
