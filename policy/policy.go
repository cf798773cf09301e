package policy

import (
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy/internal/paths"
)

// Options make a Policy.
type Options struct {
	// Rules are in the order in which verdicts explain them. The order does not change what is decided.
	// The policy keeps what the rules point to; do not change it.
	Rules []Rule
	// Classes are kinds of traffic, which rules can match and keep shares for.
	Classes []Class
	// Plans are numbers with names, which requests and overrides can name.
	Plans []Plan
	// PlanFrom are the parts that name the plan of a request: a Header, Claim, Attribute or Function for requests, and
	// descriptor:KEY of ParsePart for descriptors. A header and a claim count only with Attributes.TrustPlan. Default:
	// none, so only overrides name plans.
	PlanFrom []Part
	// DenyUnknownPlans limits requests whose plan the policy does not have, and requests with several plans, at the rules
	// that plans have numbers for. Default: such requests have the rule's own numbers.
	DenyUnknownPlans bool
	// Domains are domains of descriptors that exist even if no rule matches descriptors of theirs. In such a
	// domain, a descriptor can come with a limit of its own.
	Domains []string
	// Default is the action for a request that no rule matches: Allow or Deny. Default: Allow.
	Default Action
	// Shadow puts the whole policy in shadow: it decides, counts and explains every request, and
	// enforces nothing.
	Shadow bool
	// Pressure returns the pressure on a rule, which is demand divided by limit: 1 means that demand
	// equals the limit. It must be safe for concurrent use, and quick; Gate.Pressure is. Without it,
	// rules that match pressure match no request.
	Pressure func(rule string) float64
	// OnStoreError is for rules without an OnStoreError of their own. Default: FallbackAllow.
	OnStoreError sluice.Fallback
	// IPv6Prefix is how many bits of an IPv6 client address count, for parts without a prefix length of
	// their own. Default: 64, which is what one customer usually holds.
	IPv6Prefix int
	// Paths sets how paths are cleaned.
	Paths Paths
	// Overrides are overrides that change while the policy is in force. They come before the overrides of rules. Give
	// them to all policies that replace each other. Default: none.
	Overrides *OverrideTable
	// Terms reads the text of an override for a rule. It is called when a key first needs the terms. Terms with an
	// error do not apply. It must be safe for concurrent use. Required with Overrides.
	Terms func(rule, text string) (Terms, error)
	// Earlier is the policy that this one replaces, such as after a reload of the configuration. The
	// two policies share equal limits. Keys keep their used units without Earlier too, because state is
	// kept under the names of limits. But a store recognizes a limit by its pointer, and keeps the
	// limits with which keys were last charged. Default: none.
	Earlier *Policy
}

// Policy is a set of rules, compiled. It is immutable and safe for concurrent use. To change the rules,
// make another Policy and swap the pointer: limits of the same name keep their state.
//
// Most callers want Decide. Callers that have the name of a rule and a key, and no request, want
// DecideRule. A Decider joins a policy and a store.
type Policy struct {
	rules   []*rule
	byName  map[string]*rule
	plain   *rule // the only rule, if it is plain
	index   index
	domains map[string]*domain // of descriptors
	classes []class
	plans   map[string]int // their numbers, from 1
	// trustsPlans says that a header or a claim names plans.
	trustsPlans bool
	paths       paths.Form
	fallback    Action // when no rule matches
	pressure    func(rule string) float64
	// modelCost says how the attribute of the model is read; nil if nothing reads models.
	modelCost *ModelCost

	readHeaders    []string
	valueHeaders   []string
	requestHeaders []string
	markHeaders    []string
	reserved       []string        // requestHeaders, and the headers set by default
	onStoreError   sluice.Fallback // of limits outside of rules
}

// Rule returns the rule of a name, or nil. Do not change it.
func (p *Policy) Rule(name string) *Rule {
	if r := p.byName[name]; r != nil {
		return &r.Rule
	}
	return nil
}

// Fallback returns what happens to a request to a limit when the store cannot decide. For a limit that
// is kept under the name of a rule, it is the OnStoreError of the rule. For other limits, it is the
// OnStoreError of the policy. Allowances give nothing then: it is
// FallbackDeny. The result is FallbackAllow, FallbackDeny or FallbackLocal. Fallback is
// meant for guard.Options.Fallback. It finds limits of an earlier policy too, by their names.
func (p *Policy) Fallback(l *sluice.Limit) sluice.Fallback {
	name, own, _ := strings.Cut(l.Name(), "/") // see compiler.nameLimits
	if own == "ahead/units" {
		return sluice.FallbackDeny
	}
	if r := p.byName[name]; r != nil {
		return r.OnStoreError
	}
	return p.onStoreError
}

// Rules returns all rules in their order, with the limits as the policy names them. Do not change them.
func (p *Policy) Rules() []*Rule {
	rules := make([]*Rule, len(p.rules))
	for i, r := range p.rules {
		rules[i] = &r.Rule
	}
	return rules
}
