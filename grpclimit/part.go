package grpclimit

import (
	"errors"
	"net/netip"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// Missing is the choice for a call that lacks a part of its key.
type Missing = policy.Missing

// The choices for a missing part. If a call lacks several parts, MissingDeny wins over MissingSkip, and
// both win over MissingShared.
const (
	// MissingShared gives all calls that lack the part one budget, which no value of the part shares.
	MissingShared = policy.MissingShared
	// MissingSkip lets the call pass and does not count it. Clients that choose whether to send the
	// part choose whether they are limited.
	MissingSkip = policy.MissingSkip
	// MissingDeny refuses the call, with INVALID_ARGUMENT.
	MissingDeny = policy.MissingDeny
)

// Part is one part of a key: a value of the call that distinguishes clients, and what to do without
// it. An empty value is missing. Make a Part with PeerIP, Metadata and so on, or with PartFunc.
type Part struct {
	part policy.Part
	err  error
}

// newPart returns a part whose value is found in the call itself.
func newPart(source policy.Source, name string, missing Missing, value func(c *Call) (string, bool)) Part {
	return Part{part: policy.Part{Source: source, Name: name, OnMissing: missing, Value: func(a *policy.Attributes) (string, bool) {
		if c := callOf(a); c != nil {
			return value(c)
		}
		return "", false
	}}}
}

func (p Part) made() (policy.Part, error) { return p.part, p.err }

// PartFunc is a part that a function finds, such as a field of the message or the name in a client's
// certificate. The part is missing if the function returns false or an empty value. The name is for the
// status of calls that lack the part.
func PartFunc(name string, value func(c *Call) (string, bool), missing Missing) Part {
	switch {
	case value == nil:
		return Part{err: errors.New("PartFunc has no function; give one that finds the part in a call")}
	case name == "":
		return Part{err: errors.New("PartFunc has no name; give one for messages")}
	}
	return newPart(policy.FromFunction, name, missing, value)
}

// Metadata is the value of a metadata key. A call with several values of it is refused, see IfRepeated.
// Letter case in the name of the key does not count. The value of authorization is in one spelling:
// the case of its scheme and the number of spaces do not count.
func Metadata(key string, missing Missing) Part {
	if key == "" {
		return Part{err: errors.New("Metadata has no key; give one such as x-api-key")}
	}
	return Part{part: policy.Header(key).IfMissing(missing)}
}

// IfRepeated returns the part with another choice for calls with several values of a metadata key:
// count by the first or the last value if the service reads that one, or share the budget of calls
// without the part.
func (p Part) IfRepeated(r policy.Repeated) Part {
	p.part.OnRepeated = r
	return p
}

// Method is the full method, "/shop.v1.Orders/Create": a budget for each method.
func Method() Part {
	return newPart(policy.FromPath, "", MissingShared, func(c *Call) (string, bool) { return c.Method, true })
}

// Service is the service of the method, "shop.v1.Orders": a budget for each service.
func Service() Part {
	return newPart(policy.FromFunction, "service", MissingShared, func(c *Call) (string, bool) { return service(c.Method), true })
}

// Authority is the host that the call is for, cleaned as policy.CleanHost does. Calls of a client lack
// the part.
func Authority(missing Missing) Part {
	return newPart(policy.FromHost, "", missing, func(c *Call) (string, bool) { return policy.CleanHost(c.Authority()), true })
}

// Target is the target of a client's connection. Calls on a server lack the part.
func Target() Part {
	return newPart(policy.FromFunction, "target", MissingShared, func(c *Call) (string, bool) { return c.Target, true })
}

// PeerIP is the address of the peer. It ignores metadata of proxies. Only the first 64 bits of an IPv6
// address count. Peers at Unix domain sockets lack the part.
func PeerIP(missing Missing) Part { return ClientIP(nil, missing) }

// ClientIP is the address of the client, found by ip: the peer, or the address that trusted proxies
// report in metadata, such as x-forwarded-for.
func ClientIP(ip *httplimit.ClientIP, missing Missing) Part {
	bits := ip.IPv6Prefix()
	p := newPart(policy.FromClientIP, "", missing, func(c *Call) (string, bool) {
		addr, ok := ip.AddrOf(c.Peer(), c.Metadata)
		return addressText(addr, bits), ok
	})
	p.part.IPv6Prefix = bits
	return p
}

// addressText returns an address in the one spelling that keys have: IPv4 as it is, IPv6 as a network.
func addressText(a netip.Addr, bits int) string {
	if a.Is4() || bits == a.BitLen() {
		return a.String()
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
}

// Constant is the same for all calls. As the only part it makes one budget for all clients.
func Constant(text string) Part {
	if text == "" {
		return Part{err: errors.New("Constant is empty; give a text")}
	}
	return Part{part: policy.Constant(text)}
}
