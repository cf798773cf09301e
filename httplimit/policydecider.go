package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// PolicyOptions are the settings of a PolicyDecider.
type PolicyOptions struct {
	// Policy holds the rules, which also say what becomes of a request when the
	// store cannot decide. Required.
	Policy *policy.Policy
	// Store keeps the state of the limits. Required.
	Store sluice.Store
	// ClientIP finds the address of the client. Default: that of the peer, whatever
	// proxies say.
	ClientIP *ClientIP
	// Cost says how many units a request takes of rules that do not say. Zero means
	// one; a negative cost is refused. Default: one unit.
	Cost func(r *http.Request) int64
	// MaxWait is the longest delay that is acceptable where a rule does not name a
	// shorter one, sluice.NoWait for none. Default: what the rules say.
	MaxWait time.Duration
}

// PolicyDecider decides by the rules of a policy, which can be changed while it is
// used. It is safe for concurrent use.
type PolicyDecider struct {
	o      PolicyOptions
	policy atomic.Pointer[policy.Policy]
}

var _ Decider = (*PolicyDecider)(nil)

// NewPolicyDecider returns a decider for the rules of a policy.
func NewPolicyDecider(o PolicyOptions) (*PolicyDecider, error) {
	switch {
	case o.Policy == nil:
		return nil, errors.New("httplimit: PolicyOptions.Policy is missing; give one that policy.New made")
	case o.Store == nil:
		return nil, errors.New("httplimit: PolicyOptions.Store is missing; give one such as memory.New makes")
	case o.MaxWait < 0 && o.MaxWait != sluice.NoWait:
		return nil, fmt.Errorf("httplimit: PolicyOptions.MaxWait is %v; give a positive time, 0 or sluice.NoWait", o.MaxWait)
	}
	d := &PolicyDecider{o: o}
	d.policy.Store(o.Policy)
	return d, nil
}

// SetPolicy changes the rules. Requests that are being decided keep the old ones.
func (d *PolicyDecider) SetPolicy(p *policy.Policy) { d.policy.Store(p) }

// Policy returns the rules in force.
func (d *PolicyDecider) Policy() *policy.Policy { return d.policy.Load() }

// Store returns the store of the options.
func (d *PolicyDecider) Store() sluice.Store { return d.o.Store }

// Decide decides all limits of all rules that r meets as one.
func (d *PolicyDecider) Decide(r *http.Request) policy.Verdict {
	a := Attributes(r, d.o.ClientIP)
	a.MaxWait = d.o.MaxWait
	if d.o.Cost != nil {
		a.Cost = d.o.Cost(r)
	}
	return d.policy.Load().Decide(r.Context(), d.o.Store, &a)
}
