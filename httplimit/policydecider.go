package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	// Claim returns a claim of a request's token, for parts and conditions of rules that ask for
	// one; a program that verifies tokens itself gives the verified claims. Default: BearerClaim,
	// which verifies nothing.
	Claim func(r *http.Request, name string) (string, bool)
	// Attribute returns a value of the program's own, for parts and conditions of rules that
	// ask for an attribute by its name. Default: there are none.
	Attribute func(r *http.Request, name string) (string, bool)
	// TrustMarks reports whether a request comes from a hop that tells, in the headers that
	// rules set on requests, what became of it there: then they stay, and a request with
	// policy.MarkedHeader, or with a header that a rule of the policy marks requests with, is a
	// marked one to the rules. Trust only hops that remove such headers from what their own
	// clients send, as a Middleware does, by their address: see ClientIP.TrustsPeer. Default:
	// no hop is trusted so, and such headers are removed, for anybody can send them.
	TrustMarks func(r *http.Request) bool
}

// PolicyDecider decides by the rules of a policy, which can be changed while it is
// used. It is safe for concurrent use.
type PolicyDecider struct {
	o     PolicyOptions
	rules atomic.Pointer[rules]
}

// rules are a policy, with the headers that only its edges set on requests.
type rules struct {
	*policy.Policy
	reserved []string
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
	if err := CheckFiles(o.Policy); err != nil {
		return nil, err
	}
	d := &PolicyDecider{o: o}
	d.SetPolicy(o.Policy)
	return d, nil
}

// SetPolicy changes the rules. Requests that are being decided keep the old ones. CheckFiles
// tells before whether the rules can be carried out.
func (d *PolicyDecider) SetPolicy(p *policy.Policy) {
	reserved := append([]string{policy.DegradedHeader, policy.MarkedHeader}, p.RequestHeaders()...)
	slices.Sort(reserved)
	d.rules.Store(&rules{p, slices.Compact(reserved)})
}

// Policy returns the rules in force.
func (d *PolicyDecider) Policy() *policy.Policy { return d.rules.Load().Policy }

// Store returns the store of the options.
func (d *PolicyDecider) Store() sluice.Store { return d.o.Store }

// Reserved returns the headers that rules set on requests, unless r comes from a hop
// that is trusted to.
func (d *PolicyDecider) Reserved(r *http.Request) []string {
	if d.o.TrustMarks != nil && d.o.TrustMarks(r) {
		return nil
	}
	return d.rules.Load().reserved
}

// HasMark reports whether a request has a header in which a hop says that it is marked:
// policy.MarkedHeader, or one that a rule of the policy marks requests with. Anybody can send
// it.
func HasMark(r *http.Request, p *policy.Policy) bool {
	return slices.ContainsFunc(p.MarkHeaders(), func(name string) bool { return len(r.Header[name]) > 0 })
}

// Decide decides all limits of all rules that r meets as one.
func (d *PolicyDecider) Decide(r *http.Request) policy.Verdict {
	a := Attributes(r, d.o.ClientIP)
	a.MaxWait = d.o.MaxWait
	if d.o.Claim != nil || d.o.Attribute != nil {
		a.Values = ownValues{values{r}, d.o.Claim, d.o.Attribute}
	}
	if d.o.TrustMarks != nil && HasMark(r, d.Policy()) {
		a.Marked = d.o.TrustMarks(r)
	}
	if d.o.Cost != nil {
		a.Cost = d.o.Cost(r)
	}
	return d.Policy().Decide(r.Context(), d.o.Store, &a)
}
