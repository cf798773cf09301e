package policy

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// Options make a Policy.
type Options struct {
	// Rules in the order in which verdicts explain them. Their order does not change
	// what is decided.
	Rules []Rule
	// Default is what becomes of a request that no rule matches. Default: Allow.
	Default Action
	// OnStoreError is for the rules that do not say. Default: FallbackAllow.
	OnStoreError Fallback
	// IPv6Prefix is how many bits of an IPv6 client address count, for the parts that
	// do not say. Default: 64, which is what one customer usually holds.
	IPv6Prefix int
	// Paths says how paths are cleaned.
	Paths Paths
}

// Policy is a set of rules, compiled. It is immutable and safe for concurrent use;
// to change the rules, make another one and swap the pointer.
//
// Most callers want Decide. Those that are told the rule and the key, and not
// the request, want DecideRule.
type Policy struct{}

// New compiles a policy. The error joins a *RuleError for each mistake.
func New(o Options) (*Policy, error) { return nil, errors.New("policy: New is not finished") }

// Decide decides all limits of all rules that a request meets as one: all are
// charged, or none is. What the store cannot decide is in the verdict: see
// Rule.OnStoreError and Verdict.Err.
func (p *Policy) Decide(ctx context.Context, store sluice.Store, a *Attributes) Verdict {
	return Verdict{}
}

// Peek answers as Decide would, and takes nothing.
func (p *Policy) Peek(ctx context.Context, store sluice.Store, a *Attributes) Verdict {
	return Verdict{}
}

// Meets returns the limits that a request meets, with the requests that Decide
// would put to a store and no decisions.
func (p *Policy) Meets(a *Attributes) []Met { return nil }

// Question addresses one rule by name, whatever it matches.
type Question struct {
	// Rule is the name of the rule.
	Rule string
	// Key are the values of the rule's key, one for each part that is no constant, in their order.
	// They are cleaned as those of a request are: an address is masked, a path
	// cleaned.
	Key []string
	// Cost is how many units are asked for, where the rule does not say; zero means one.
	Cost int64
	// MaxWait is the longest delay that is acceptable, as in Attributes.
	MaxWait time.Duration
	// Peek takes nothing.
	Peek bool
}

// DecideRule decides all limits of one rule as one. The error is a
// *QuestionError if there is no such rule, or the key does not fit it; a store's error is in the verdict.
func (p *Policy) DecideRule(ctx context.Context, store sluice.Store, q Question) (Verdict, error) {
	return Verdict{}, nil
}

// Reset forgets what a key has used of all limits of a rule, and its bans. The
// key is given as in Question.
func (p *Policy) Reset(ctx context.Context, store sluice.Store, rule string, key ...string) error {
	return nil
}

// Rule returns the rule of a name, or nil. It is not to be changed.
func (p *Policy) Rule(name string) *Rule { return nil }

// Rules returns all rules in their order, with the limits as the policy names
// them. They are not to be changed.
func (p *Policy) Rules() []*Rule { return nil }
