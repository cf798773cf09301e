package policy

import (
	"time"

	"github.com/sluicehq/sluice"
)

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
