package policy

import (
	"net/netip"
	"time"
)

// Match selects the requests of a rule. All fields that are set must match. In a list, one entry must
// match; in a list of conditions on values, all must. The zero Match selects every request.
type Match struct {
	// Paths are patterns of the cleaned path. A pattern begins with a slash and is
	// compared segment by segment:
	//
	//	/login        only this path; /login/ is cleaned to it
	//	/users/*      exactly one segment in place of the star, so /users does not match
	//	/users/{id}   the same, and Param("id") makes the segment a part of a key
	//	/api/**       /api and every path below it
	//	/**/export    /export, and every path that ends so
	//
	// A star matches whole segments only: "/*.png" is an error. Other segments may be percent-encoded,
	// as in a URL: "/a b" is "/a%20b", and a star itself is "%2A".
	Paths []string
	// Methods are compared exactly. GET matches HEAD too, because the same handlers serve both.
	Methods []string
	// Hosts are names without a port, "api.example.com", or "*.example.com" for all names below
	// example.com, but not for example.com itself.
	Hosts []string
	// Headers, Cookies and Queries (parameters) are conditions that must all hold.
	Headers, Cookies, Queries []ValueMatch
	// Attributes are conditions on values of other kinds, which only some edges have: see
	// AttributeValues. All must hold.
	Attributes []ValueMatch
	// ClientIPs are networks. One of them must contain the client's address. There may be many.
	ClientIPs []netip.Prefix
	// Classes are names of Options.Classes. The request's class must have one of them.
	Classes []string
	// Marked, if not nil, matches requests that are marked (true) or not marked (false). An earlier hop
	// can mark a request (see Attributes.Marked), or a rule of this policy with the action Mark. The
	// policy then decides such rules first, in a call of their own to the store, except rules that
	// match marks themselves.
	Marked *bool
	// Pressure, if not zero, matches requests only during congestion: while the pressure on the rule
	// called PressureOf has this value or more. Pressure is demand divided by limit.
	Pressure float64
	// PressureOf is the name of another rule. See Options.Pressure.
	PressureOf string
	// If holds conditions of other kinds; all must hold.
	If []Matcher
	// Unless are exceptions: a request that one of them matches does not match.
	Unless []Match
	// Descriptor, if not nil, matches descriptors instead of requests: see Decider.DecideDescriptors. All other
	// fields are empty then.
	Descriptor *Descriptor
}

// ValueMatch is a condition on one header, cookie, parameter or attribute. Without OneOf and Prefixes,
// the value must be present, whatever it is. If the request has several values, the rule applies if one of
// them fulfills the condition; an exception and a class need all of them.
type ValueMatch struct {
	Name string
	// OneOf are values, compared exactly.
	OneOf []string
	// Prefixes are beginnings of values. A value needs to match only one of OneOf and Prefixes.
	Prefixes []string
	// Absent inverts the condition: the value must not be present. Give it without OneOf and Prefixes. An
	// empty value is present to some services and missing to others: a rule applies to it either way, and
	// an exception to neither.
	Absent bool
}

// Matcher is a condition on a request for which Match has no field. It must be safe for concurrent use,
// and must not change or keep the attributes. Their Host and Path are clean, and their ClientIP is not
// an IPv4 address mapped to IPv6. Matches is called once for each path variant: see Paths.
type Matcher interface {
	Matches(a *Attributes) bool
}

// StateMatcher is a Matcher that uses more than a request's attributes. MatchesState is called instead
// of Matches. In the match of a class, the state has no class, and contains only marks of an earlier
// hop.
type StateMatcher interface {
	Matcher
	// Uses reports whether the matcher uses marks, as Match.Marked does, and returns the rules whose
	// pressure it uses. It must always return the same.
	Uses() (marks bool, pressures []string)
	MatchesState(a *Attributes, s State) bool
}

// State is what a policy has about a request besides its attributes.
type State struct {
	// Class is the name of the request's class, empty for none.
	Class string
	// ClassUnclear means that the class depends on which of several values a service reads. Class is empty.
	ClassUnclear bool
	// Marked says that an earlier hop or a rule of the policy has marked the request.
	Marked bool
	// Pressure returns the pressure of a rule; nil if nothing measures it: see Options.Pressure.
	Pressure func(rule string) float64
}

// CertainMatcher is a StateMatcher that reports when its result depends on which of several values a
// service reads. A policy then applies the rule, and does not apply the exception or give the class.
type CertainMatcher interface {
	StateMatcher
	// MatchesCertainly is called instead of MatchesState.
	MatchesCertainly(a *Attributes, s State) (matches, certain bool)
}

// ValueReader is the interface of a Matcher that lists the headers, cookies, parameters and claims that
// it reads. Edges then keep clients from sending them in other spellings, see Policy.ReadHeaders.
type ValueReader interface {
	Matcher
	// Reads returns the sources and names. It always returns the same.
	Reads() []ValueName
}

// ValueName names a value of requests.
type ValueName struct {
	Source Source
	Name   string
}

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
