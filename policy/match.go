package policy

import (
	"net/netip"

	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/descriptors"
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
	Descriptor *descriptors.Pattern
}

// ValueMatch is a condition on one header, cookie, parameter or attribute. Without OneOf and Prefixes,
// the value must be present, whatever it is. If the request has several values, the rule applies if one of
// them fulfills the condition; an exception and a class need all of them.
type ValueMatch struct {
	// Name is the name of the value, such as of a header.
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

// Optional interfaces of a Matcher, which conditions in files have.
type (
	stateMatcher   = condition.StateMatcher[*Attributes]
	certainMatcher = condition.CertainMatcher[*Attributes]
)
