// Package descriptors has the descriptors of gateways such as Envoy, and the patterns by which rules match them. Only
// configuration files and the server make them.
package descriptors

import (
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Pattern selects descriptors instead of requests. A descriptor is a list of keys and values that a
// gateway such as Envoy sends in the name of a domain. A rule with one never matches an HTTP request, and
// needs no Key: its limits then count by the values that no entry fixes.
//
// The rules of a domain form a tree. A descriptor is matched entry by entry: first with the entry of its exact
// value, then with the first wildcard in the order of the rules, then with the entry that takes every value. A
// choice is final. Only a rule with as many entries as the descriptor applies, so at most one rule does.
type Pattern struct {
	// Domain is the domain of the descriptors.
	Domain string
	// Entries are the entries in their order, one or more.
	Entries []PatternEntry
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

// AlwaysPeriod returns the period that answers name for a rule that is Always limited.
func (d *Pattern) AlwaysPeriod() time.Duration {
	if d.Period > 0 {
		return d.Period
	}
	return time.Second
}

// PatternEntry selects one entry of a descriptor.
type PatternEntry struct {
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

// Varies reports whether the entry matches several values.
func (e *PatternEntry) Varies() bool { return e.Value == "" || strings.Contains(e.Value, "*") }

// Request is one descriptor of a call.
type Request struct {
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

// Step is how one entry of a descriptor matches.
type Step struct {
	Entry Entry
	// Matches says that some rule has the entry.
	Matches bool
	// Value is the value of the rules' entry: the exact value, a wildcard, or empty if every value matches.
	Value string
}
