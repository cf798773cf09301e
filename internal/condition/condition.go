// Package condition has what conditions of rules use, and what they fail by: for explanations of why a request does not
// match a rule.
package condition

import "github.com/sluicehq/sluice/internal/source"

// Kind is a kind of condition of a rule. The comments name the fields of Unmet.
type Kind string

// The conditions, in the order in which they are checked.
const (
	// Bypass: the class of the request bypasses all rules. Name is the class.
	Bypass Kind = "bypass"
	// Host, Path and Method: Value is none of OneOf.
	Host   Kind = "host"
	Path   Kind = "path"
	Method Kind = "method"
	// Class: the class of the request, Value, is another one.
	Class Kind = "class"
	// Marked: the request is not marked. Name is the rule that may still mark it, if any.
	Marked Kind = "marked"
	// Unmarked: the request is marked.
	Unmarked Kind = "unmarked"
	// Header, Cookie, Query and Attribute: the value called Name is
	// missing, or Value is none of OneOf and begins with none of Prefixes. If both lists are empty and
	// Value is present, the condition requires that it is absent.
	Header    Kind = "header"
	Cookie    Kind = "cookie"
	Query     Kind = "query"
	Attribute Kind = "attribute"
	// ClientIP: the client's address, Value, is in none of the networks.
	ClientIP Kind = "client_ip"
	// If: a Matcher does not match. Name is its text, if it is a fmt.Stringer.
	If Kind = "if"
	// Pressure: the pressure on the rule Name is less than AtLeast.
	Pressure Kind = "pressure"
	// Unless: an exception matches: number Exception, from 1, of Exceptions.
	Unless Kind = "unless"
	// Descriptor: the rule matches descriptors, and no requests. Name is the domain.
	Descriptor Kind = "descriptor"
	// Key: the request lacks the part Name of the key, and skips the rule.
	Key Kind = "key"
)

// State is what a policy has about a request besides its attributes.
type State struct {
	// Class is the name of the request's class, empty for none.
	Class string
	// ClassUnclear means that the class depends on which of several values a service reads. Class is empty.
	ClassUnclear bool
	// Marked says that an earlier hop or a rule of the policy has marked the request.
	Marked bool
	// Pressure returns the pressure of a rule; nil if nothing measures it: see policy.Options.
	Pressure func(rule string) float64
}

// StateMatcher is a policy.Matcher that uses more than a request's attributes, of type A. MatchesState is
// called instead of Matches. In the match of a class, the state has no class, and contains only marks of an
// earlier hop.
type StateMatcher[A any] interface {
	// Uses reports whether the matcher uses marks, as Match.Marked does, and returns the rules whose
	// pressure it uses. It must always return the same.
	Uses() (marks bool, pressures []string)
	MatchesState(a A, s State) bool
}

// CertainMatcher is a StateMatcher that reports when its result depends on which of several values a
// service reads. A policy then applies the rule, and does not apply the exception or give the class.
type CertainMatcher[A any] interface {
	StateMatcher[A]
	// MatchesCertainly is called instead of MatchesState.
	MatchesCertainly(a A, s State) (matches, certain bool)
}

// ValueReader is a policy.Matcher that lists the headers, cookies, parameters and claims that it reads. Edges then keep
// clients from sending them in other spellings, see policy.Policy.ReadHeaders.
type ValueReader interface {
	// Reads returns the sources and names. It always returns the same.
	Reads() []source.Value
}

// Unmet is a condition of a rule that a request fails. Fields that the condition does not use are zero.
type Unmet struct {
	// Condition is what fails, such as "path", "header" or "if".
	Condition Kind
	// Name is the name that the condition concerns.
	Name string
	// Value is what the request has; Missing means that the request has no such value.
	Value   string
	Missing bool
	// OneOf and Prefixes are what the condition accepts.
	OneOf, Prefixes []string
	// Pressure is the pressure on the rule Name, and AtLeast the pressure that the condition needs. Missing
	// means that the pressure is unknown.
	Pressure, AtLeast float64
	// Exception counts from 1.
	Exception, Exceptions int
}
