package policy

import (
	"net/netip"
	"time"
)

// Attributes describe a request to a policy. Edges fill them in once for each request. The policy reads
// only what its rules need, and keeps nothing.
type Attributes struct {
	// Method is the request's method, in upper case: see CheckMethod.
	Method string
	// Host is the host that the request is for. The policy cleans it as CleanHost does, so an edge
	// may give it with a port and in any case: see CheckHost.
	Host string
	// Path is the request's path as it came, escaped: for net/http, r.URL.EscapedPath(). The policy
	// cleans it as Paths.Clean does, which does not change a clean path. It also computes the path
	// variants: see Paths.
	Path string
	// ClientIP is the address of the client: the peer's address, or the address that trusted proxies
	// report. Invalid if there is none.
	ClientIP netip.Addr
	// Values returns the named parts of the request, such as headers; nil for a request without any.
	Values Values
	// Marked says that an earlier hop has marked the request. Only a trusted hop may mark. Marks by
	// rules of the policy are in the verdict.
	Marked bool
	// RequestBytes is the size of the request's body, or -1 if it is known only when the body has been read.
	RequestBytes int64
	// Cost is how many units the request takes from rules without a cost of their own; zero means one.
	Cost int64
	// MaxWait is the longest delay that the request accepts, sluice.NoWait for none.
	// Zero leaves it to the rules and their limits. If a rule has a MaxWait too, the shorter one
	// holds.
	MaxWait time.Duration

	// ReadOnce keeps what was read of the Values for all rules. Set it if the values are long.
	ReadOnce bool

	// repeatable are the Values if they can be repeated. It is valid if known is set: a policy looks once
	// for each request.
	repeatable RepeatableValues
	known      bool
	// memo keeps what was read; nil unless the request is matched several times.
	memo *memo
}

// Values finds the named parts of a request. ok is false for a missing part; an empty part is "" and
// true. Names of headers are in the form of net/http's CanonicalHeaderKey. If requests can have
// several values of a name, implement RepeatableValues too.
type Values interface {
	Header(name string) (value string, ok bool)
	Cookie(name string) (value string, ok bool)
	Query(name string) (value string, ok bool)
}

// ClaimValues is an optional interface of Values. It finds the claims of a token for FromClaim, such as
// "sub" of a JWT. The edge, or a gateway in front of it, must have verified the token: clients choose
// the claims of an unverified token.
type ClaimValues interface {
	Claim(name string) (value string, ok bool)
}

// AttributeValues is an optional interface of Values. It finds named values of other kinds: values of a
// protocol that is not HTTP, or the edge's own values.
type AttributeValues interface {
	Attribute(name string) (value string, ok bool)
}

// value returns a named value of a request.
func (a *Attributes) value(s Source, name string) (string, bool) {
	if a.Values == nil {
		return "", false
	}
	switch s {
	case FromHeader:
		return a.Values.Header(name)
	case FromCookie:
		return a.Values.Cookie(name)
	case FromQuery:
		return a.Values.Query(name)
	case FromClaim:
		if v, ok := a.Values.(ClaimValues); ok {
			return v.Claim(name)
		}
	case FromAttribute:
		if v, ok := a.Values.(AttributeValues); ok {
			return v.Attribute(name)
		}
	}
	return "", false
}
