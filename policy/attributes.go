package policy

import (
	"net/netip"
	"time"
)

// Attributes describe a request to a policy. Edges fill them in once a request;
// the policy reads only those that its rules ask for, and keeps none of them.
type Attributes struct {
	// Method is the request's method, in upper case.
	Method string
	// Host is the host asked for. The policy cleans it as CleanHost does, so an edge
	// may give it with a port and in any case.
	Host string
	// Path is the request's path as it came, escaped: for net/http,
	// r.URL.EscapedPath(). The policy cleans it as Paths.Clean does, which changes
	// nothing about a path that is clean.
	Path string
	// ClientIP is the address of the client: that of the peer, or what trusted proxies
	// say. Invalid if there is none.
	ClientIP netip.Addr
	// Values gives the named parts of the request that only its edge knows; nil for
	// a request that has none.
	Values Values
	// Cost is how many units the request takes where a rule does not say; zero means one.
	Cost int64
	// MaxWait is the longest delay that the request accepts, sluice.NoWait for none.
	// Zero leaves it to the rules and their limits. Of a rule's MaxWait and
	// this one the shorter holds.
	MaxWait time.Duration
}

// Values gives the named parts of a request. ok is false for a part that is
// missing; one that is there and empty is "" and true. Names of headers are in the
// form of net/http's CanonicalHeaderKey.
type Values interface {
	Header(name string) (value string, ok bool)
	Cookie(name string) (value string, ok bool)
	Query(name string) (value string, ok bool)
}

func (a *Attributes) header(name string) (string, bool) {
	if a.Values == nil {
		return "", false
	}
	return a.Values.Header(name)
}

func (a *Attributes) cookie(name string) (string, bool) {
	if a.Values == nil {
		return "", false
	}
	return a.Values.Cookie(name)
}

func (a *Attributes) query(name string) (string, bool) {
	if a.Values == nil {
		return "", false
	}
	return a.Values.Query(name)
}
