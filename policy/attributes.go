package policy

import "net/netip"

// Attributes describe a request to a policy. Edges fill them in once a request;
// the policy reads only those that its rules ask for.
type Attributes struct {
	// Method is the request's method, in upper case.
	Method string
	// Host is the host asked for, without a port, in lower case.
	Host string
	// Path is the decoded and cleaned path: what the service routes by.
	Path string
	// ClientIP is the address of the client: that of the peer, or what trusted proxies
	// say. Invalid if there is none.
	ClientIP netip.Addr
	// Values gives the named parts of the request that only its edge knows.
	Values Values
	// Cost is how many units the request takes where a rule does not say; zero means one.
	Cost int64
}

// Values gives the named parts of a request. ok is false for a part that is
// missing; one that is there and empty is "" and true.
type Values interface {
	Header(name string) (value string, ok bool)
	Cookie(name string) (value string, ok bool)
	Query(name string) (value string, ok bool)
}
