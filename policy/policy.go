package policy

import (
	"strings"

	"github.com/sluicehq/sluice"
)

// Options make a Policy.
type Options struct {
	// Rules in the order in which verdicts explain them. Their order does not change
	// what is decided. The policy keeps what they point to, which is not to be changed.
	Rules []Rule
	// Classes are kinds of traffic, which rules can match and keep shares for.
	Classes []Class
	// Default is what becomes of a request that no rule matches: Allow or Deny. Default: Allow.
	Default Action
	// Shadow puts the whole policy in shadow: all is decided, counted and explained, and nothing enforced.
	Shadow bool
	// Pressure returns the pressure on a rule, which is demand divided by limit: 1 means that demand
	// equals the limit. It must be safe for concurrent use, and quick; Gate.Pressure is. Without it,
	// rules that match pressure match no request.
	Pressure func(rule string) float64
	// OnStoreError is for the rules that do not say. Default: FallbackAllow.
	OnStoreError Fallback
	// IPv6Prefix is how many bits of an IPv6 client address count, for the parts that
	// do not say. Default: 64, which is what one customer usually holds.
	IPv6Prefix int
	// Paths says how paths are cleaned.
	Paths Paths
	// Earlier is the policy that this one replaces, as when a configuration is loaded again: limits
	// that are the same are shared with it. What keys have used stays used without it too, because
	// state is kept under the names of limits. But a store recognizes a limit by its pointer, and
	// keeps the limits with which keys were last charged. Default: none.
	Earlier *Policy
}

// Policy is a set of rules, compiled. It is immutable and safe for concurrent use;
// to change the rules, make another one and swap the pointer: limits of the same
// name go on with the state that is there.
//
// Most callers want Decide. Callers that have the name of a rule and a key, and no request, want
// DecideRule. A Decider joins a policy and a store.
type Policy struct {
	rules    []*rule
	byName   map[string]*rule
	plain    *rule // the only rule, if it is plain
	index    index
	classes  []class
	paths    Paths
	fallback Action // when no rule matches
	pressure func(rule string) float64

	requestHeaders []string
	markHeaders    []string
	reserved       []string // requestHeaders, and those set by default
	onStoreError   Fallback // of limits outside of rules
}

// Rule returns the rule of a name, or nil. It is not to be changed.
func (p *Policy) Rule(name string) *Rule {
	if r := p.byName[name]; r != nil {
		return &r.Rule
	}
	return nil
}

// Fallback returns what becomes of a request to a limit when the store cannot decide: the
// OnStoreError of the rule under whose name the limit is kept, or of the policy for other limits. It
// returns FallbackAllow, FallbackDeny or FallbackLocal, and is meant for guard.Options.Fallback. It
// finds limits of an earlier policy too, by their names.
func (p *Policy) Fallback(l *sluice.Limit) Fallback {
	name, _, _ := strings.Cut(l.Name(), "/") // see compiler.nameLimits
	if r := p.byName[name]; r != nil {
		return r.OnStoreError
	}
	return p.onStoreError
}

// Rules returns all rules in their order, with the limits as the policy names
// them. They are not to be changed.
func (p *Policy) Rules() []*Rule {
	rules := make([]*Rule, len(p.rules))
	for i, r := range p.rules {
		rules[i] = &r.Rule
	}
	return rules
}
