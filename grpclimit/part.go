package grpclimit

import (
	"net/netip"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/keyed"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// edge finds the parts of keys in calls.
func edge(ip *httplimit.ClientIP) *keyed.Edge[*Call] {
	return &keyed.Edge[*Call]{Name: "grpclimit", RequestOf: callOf, Find: func(p *policy.Part) func(*Call) (string, bool) {
		switch p.Source {
		case source.ClientIP:
			if p.IPv6Prefix == 0 {
				p.IPv6Prefix = ip.IPv6Prefix()
			}
			bits := p.IPv6Prefix
			return func(c *Call) (string, bool) {
				addr, ok := ip.AddrOf(c.Peer(), c.Metadata)
				return addressText(addr, bits), ok
			}
		case source.Path:
			return func(c *Call) (string, bool) { return c.Method, true }
		case source.Host:
			return func(c *Call) (string, bool) { return spelling.Host(c.Authority()), true }
		}
		return nil
	}}
}

// Function is a part of a key that a function finds in the call, such as a field of the message or the name in a
// client's certificate. The part is missing if the function returns false or an empty value. The name is for the
// status of calls that lack the part.
func Function(name string, value func(c *Call) (string, bool)) policy.Part {
	return edge(nil).Function(name, value)
}

// Metadata is a part of a key: the value of a metadata key, as policy.Header finds it. Letter case in the name of the
// key does not count.
func Metadata(key string) policy.Part { return policy.Header(key) }

// Method is a part of a key: the full method, "/shop.v1.Orders/Create", which is the path of a call.
func Method() policy.Part { return policy.Path() }

// Service is a part of a key: the service of the method, "shop.v1.Orders".
func Service() policy.Part {
	return Function("service", func(c *Call) (string, bool) { return service(c.Method), true })
}

// Target is a part of a key: the target of a client's connection. Calls on a server lack the part.
func Target() policy.Part {
	return Function("target", func(c *Call) (string, bool) { return c.Target, true })
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
