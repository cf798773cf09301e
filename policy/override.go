package policy

import "github.com/sluicehq/sluice"

// Override is what one key of a rule may have instead of the rule's own limits:
// the same limits with other numbers, so that what the key has used stays used when
// its override comes, changes or goes.
type Override struct {
	// Key is the key, given as in RuleRequest.Key.
	Key []string
	// Limits are as many as those of the rule, in their order. Those that are equal may share one value.
	Limits []*sluice.Limit
}
