package policy

// Match says which requests a rule is for. All fields that are set must match;
// within one list, one entry must. The zero Match is for every request.
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
	// A star stands for whole segments only: "/*.png" is an error. Segments that
	// are no wildcard are escaped or not, as in a URL: "/a b" is "/a%20b", and a
	// star itself is "%2A".
	Paths []string
	// Methods are compared exactly; GET is for HEAD also, which the same handlers serve.
	Methods []string
	// Hosts are names without a port, "api.example.com", or "*.example.com" for all
	// names below example.com, but not itself.
	Hosts []string
	// Headers must all match.
	Headers []HeaderMatch
	// If holds conditions of other kinds; all must hold.
	If []Matcher
}

// HeaderMatch is a condition on one header. With neither OneOf nor Prefixes the
// header must be there, whatever its value.
type HeaderMatch struct {
	Name string
	// OneOf are values, compared exactly.
	OneOf []string
	// Prefixes are beginnings of values. A value that matches OneOf or Prefixes will do.
	Prefixes []string
	// Absent turns the condition around: the header must not be there. It is given
	// without OneOf and Prefixes.
	Absent bool
}

// Matcher is a condition on a request that Match has no field for. It is safe for
// concurrent use, and neither changes nor keeps the attributes, whose Host and Path are clean,
// and whose ClientIP is no IPv4 address mapped to IPv6.
type Matcher interface {
	Matches(a *Attributes) bool
}
