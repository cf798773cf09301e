package policy

import (
	"time"

	"github.com/sluicehq/sluice"
)

// Descriptor selects descriptors instead of requests. A descriptor is a list of keys and values that a
// gateway such as Envoy sends in the name of a domain. A rule with one never matches an HTTP request, and
// needs no Key: its limits then count by the values that no entry fixes.
//
// The rules of a domain form a tree. A descriptor is matched entry by entry: first with the entry of its exact
// value, then with the first wildcard in the order of the rules, then with the entry that takes every value. A
// choice is final. Only a rule with as many entries as the descriptor applies, so at most one rule does.
type Descriptor struct {
	// Domain is the domain of the descriptors.
	Domain string
	// Entries are the entries in their order, one or more.
	Entries []DescriptorEntry
	// Label is the name of the limit in answers, and the name that Replaces of other rules can give. Several
	// rules may have the same label. Default: none.
	Label string
	// Replaces are labels. If the rule matches a descriptor of a call, rules with these labels do not apply to
	// the other descriptors of the call.
	Replaces []string
	// Quota lets a call pass although the rule's limits deny it, as long as another rule with Quota of the same
	// call allows it.
	Quota bool
	// Debit takes the cost of a descriptor whatever is left and whatever the other descriptors of the call decide, as
	// Envoy's rate limit service does. Units that were not there become debt. The limits must be able to owe units:
	// see sluice.Limit.TakesDebits. Limits that come with a call are always debited. Default: a denied call takes nothing.
	Debit bool
	// Period is the period that answers name for a rule that is Always limited. Default: one second.
	Period time.Duration
	// Detailed counts the rule's decisions by the values of the descriptor too. The number of different values is
	// bounded.
	Detailed bool
	// Metadata is given to the gateway with a descriptor that passes. The policy does not read it.
	Metadata map[string]any
}

// DescriptorEntry selects one entry of a descriptor.
type DescriptorEntry struct {
	// Key is compared exactly.
	Key string
	// Value is compared exactly, except that a star matches any text, the empty text too. Default: every value
	// matches.
	Value string
	// Shared counts all values that the stars match together. Otherwise each value has units of its own.
	Shared bool
	// Counted counts the rule's decisions by the value of this entry too. The number of different values is
	// bounded.
	Counted bool
}

// Entry is one entry of a descriptor that a gateway sends.
type Entry struct{ Key, Value string }

// DescriptorRequest is one descriptor of a call.
type DescriptorRequest struct {
	// Entries are what the rules of the domain are matched against. The policy keeps nothing of them.
	Entries []Entry
	// Cost is how many units the descriptor takes. Zero means one, unless Look is set. A rule with Cost.Units
	// multiplies it.
	Cost int64
	// Look decides and takes nothing. With a Cost of zero, the descriptor is over its limit if more units are used
	// than the limit has, so a key that is exactly at its limit is not.
	Look bool
	// Refund gives the Cost back, up to what the key has used. It neither takes nor denies anything.
	Refund bool
	// Limit replaces the limits of the rule by a fixed window of this rate. A count of zero denies everything.
	// It has an effect only in a domain of the policy. Nil for none.
	Limit *sluice.Rate
}

// DescriptorVerdict is the verdict about all descriptors of a call.
type DescriptorVerdict struct {
	// Verdict is folded from the results of all descriptors. Its Reason is ReasonNoRule if no rule matches any
	// of them: such a call passes, whatever Options.Default says.
	Verdict
	// Descriptors are the results of the descriptors, in their order.
	Descriptors []DescriptorResult
	// Known says that the policy has rules of the domain, or names it in Options.Domains.
	Known bool
}

// DescriptorResult is what was decided about one descriptor.
type DescriptorResult struct {
	// Rule is the rule that the descriptor matches; nil if no limit applies. For a limit of the call's own it is a
	// rule that is not one of the policy's.
	Rule *Rule
	// Allowed reports whether the descriptor by itself lets the call pass. It is true for a rule in shadow, and
	// false for a descriptor with Quota that is over its limit, even if the call passes.
	Allowed bool
	// Over says that the limits deny the descriptor, enforced or not.
	Over bool
	// Unlimited says that the rule is unlimited.
	Unlimited bool
	// Replaced says that another rule replaces the rule. Its limits did not decide.
	Replaced bool
	// Override says that the limit came with the descriptor.
	Override bool
	// Rate is the rate of the deciding limit. It is zero if no limit applies, and has the count zero for a rule
	// that is Always limited.
	Rate sluice.Rate
	// Cost is how many units the descriptor takes, or gives back if Refunded is set.
	Cost int64
	// Refunded says that the units were given back.
	Refunded bool
	// Err says why units could not be given back; nil if they were, or were not to be. It wraps
	// errors.ErrUnsupported for an algorithm that cannot take units back.
	Err error
	// Deciding is the result of the tightest limit of the rule; nil if no limit decided. It is one of Results.
	Deciding *LimitResult
	// Results are the results of all limits of the rule: a part of Verdict.Results.
	Results []LimitResult
}

// Remaining returns how many units the deciding limit has left; zero if no limit decided.
func (r *DescriptorResult) Remaining() int64 {
	if r.Deciding == nil {
		return 0
	}
	return r.Deciding.Decision.Remaining
}

// Reset returns the time until the deciding limit has all its units again. For a window that is its end. It is
// zero if no limit decided.
func (r *DescriptorResult) Reset() time.Duration {
	if r.Deciding == nil {
		return 0
	}
	return r.Deciding.Decision.ResetAfter
}

// RetryAfter returns the time after which a denied descriptor may come back, zero if it never may.
func (r *DescriptorResult) RetryAfter() time.Duration {
	if r.Deciding == nil {
		return 0
	}
	return r.Deciding.Decision.RetryAfter
}
