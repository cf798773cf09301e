package policy

import "net/netip"

// Match says which requests a rule is for. All fields that are set must match;
// within one list, one entry must, but of conditions on values, all. The zero
// Match is for every request.
type Match struct {
	// Paths are patterns of the cleaned path. A pattern begins with a slash and is
	// compared segment by segment:
	//
	//	/login        this path alone; /login/ is cleaned to it
	//	/users/*      exactly one segment in place of the star, so not /users
	//	/users/{id}   the same, and Param("id") makes a key of the segment
	//	/api/**       /api and every path below it
	//	/**/export    /export, and every path that ends so
	//
	// A star matches whole segments only: "/*.png" is an error. Other segments are escaped or not, as in a URL: "/a b" is "/a%20b", and a
	// star itself is "%2A".
	Paths []string
	// Methods are compared exactly; GET is for HEAD also, which the same handlers serve.
	Methods []string
	// Hosts are names without a port, "api.example.com", or "*.example.com" for all
	// names below example.com, but not itself.
	Hosts []string
	// Headers, Cookies and Queries (parameters) are conditions that must all hold.
	Headers, Cookies, Queries []ValueMatch
	// Attributes are conditions on values that only an edge of another protocol
	// has, see AttributeValues. All must hold.
	Attributes []ValueMatch
	// ClientIPs are networks, one of which holds the client's address. There may be many.
	ClientIPs []netip.Prefix
	// Classes are names of Options.Classes, one of which the request's class has.
	Classes []string
	// Marked, if not nil, matches requests that are marked, or that are not: by an earlier hop, see
	// Attributes.Marked, or by a rule of this policy whose action is Mark. Such a rule is
	// decided first then, in a call of its own to the store, unless it matches marks itself.
	Marked *bool
	// Pressure is for times of congestion: the rule is for requests only while the
	// pressure of the rule called PressureOf, which is demand divided by limit, is so much or more.
	Pressure float64
	// PressureOf is the name of another rule. See Options.Pressure.
	PressureOf string
	// If holds conditions of other kinds; all must hold.
	If []Matcher
	// Unless are exceptions: a request that one of them matches does not match.
	Unless []Match
}

// ValueMatch is a condition on one header, cookie, parameter or attribute. With
// neither OneOf nor Prefixes it must be there, whatever its value.
type ValueMatch struct {
	Name string
	// OneOf are values, compared exactly.
	OneOf []string
	// Prefixes are beginnings of values. A value that matches OneOf or Prefixes will do.
	Prefixes []string
	// Absent turns the condition around: the value must not be there. It is given
	// without OneOf and Prefixes.
	Absent bool
}

// Matcher is a condition on a request that Match has no field for. It is safe for concurrent
// use, and neither changes nor keeps the attributes, whose Host and Path are clean, and whose
// ClientIP is not an IPv4 address mapped to IPv6. It is called once for each variant of the path,
// see Paths.
type Matcher interface {
	Matches(a *Attributes) bool
}

// StateMatcher is a Matcher that uses more than a request's attributes. MatchesState is called
// instead of Matches. In the match of a class, the state has no class, and only marks of an
// earlier hop.
type StateMatcher interface {
	Matcher
	// Uses reports whether it uses marks, as Match.Marked does, and the rules whose pressure it
	// uses. It always returns the same.
	Uses() (marks bool, pressures []string)
	MatchesState(a *Attributes, s State) bool
}

// State is what a policy has about a request besides its attributes.
type State struct {
	// Class is the name of the request's class, empty for none.
	Class string
	// Marked says that an earlier hop or a rule of the policy has marked the request.
	Marked bool
	// Pressure returns the pressure of a rule; nil if nothing measures it: see Options.Pressure.
	Pressure func(rule string) float64
}
