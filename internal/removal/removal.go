// Package removal lists the headers that do not reach the service behind a proxy, and why.
package removal

import "github.com/sluicehq/sluice/internal/spelling"

// Why says why a proxy does not pass on a header of its client. A rule that reads such a header decides by what
// the service never gets.
type Why uint8

const (
	// Stays means that the header is passed on.
	Stays Why = iota
	// Forwarding means that the proxy replaces the header, or removes it: the header describes the client.
	Forwarding
	// Proxied means that only proxies set the header, so it stays if a trusted proxy sends it. It names the client,
	// or replaces the path, host or method.
	Proxied
	// Overriding means that the header replaces the method. Some proxies are set to pass it on.
	Overriding
	// PerHop means that the header is for one connection only (RFC 9110, 7.6.1, and older names).
	PerHop
)

// By these headers the service behind recognizes marked and degraded requests, unless the rule names others. Edges
// remove them from what clients send.
const (
	Marked   = "Sluice-Marked"
	Degraded = "Sluice-Degraded"
)

// removals are the headers that do not reach the service, in lower case.
var removals = map[string]Why{
	"forwarded": Forwarding, "x-real-ip": Forwarding,

	"connection": PerHop, "http2-settings": PerHop, "keep-alive": PerHop, "proxy-authenticate": PerHop, "proxy-authorization": PerHop,
	"proxy-connection": PerHop, "te": PerHop, "trailer": PerHop, "transfer-encoding": PerHop, "upgrade": PerHop,

	"x-http-method-override": Overriding, "x-http-method": Overriding, "x-method-override": Overriding,

	// The address of the client, as content delivery networks, clouds and older proxies name it.
	"ali-cdn-real-ip": Proxied, "cdn-src-ip": Proxied, "cf-connecting-ip": Proxied, "cf-connecting-ipv6": Proxied,
	"cf-pseudo-ipv4": Proxied, "client-ip": Proxied, "do-connecting-ip": Proxied, "fastly-client-ip": Proxied, "fly-client-ip": Proxied,
	"forwarded-for": Proxied, "forwarded-for-ip": Proxied, "incap-client-ip": Proxied, "proxy-client-ip": Proxied, "remote-addr": Proxied,
	"true-client-ip": Proxied, "wl-proxy-client-ip": Proxied, "x-appengine-remote-addr": Proxied, "x-appengine-user-ip": Proxied,
	"x-azure-clientip": Proxied, "x-azure-socketip": Proxied, "x-client-ip": Proxied, "x-cluster-client-ip": Proxied,
	"x-envoy-external-address": Proxied, "x-forwarded": Proxied, "x-nf-client-connection-ip": Proxied, "x-original-forwarded-for": Proxied,
	"x-originating-ip": Proxied, "x-proxyuser-ip": Proxied, "x-remote-addr": Proxied, "x-remote-ip": Proxied, "x-sucuri-clientip": Proxied,
	"x-vercel-forwarded-for": Proxied,

	// The path, host or method, for services that believe these headers rather than the request.
	"path-info": Proxied, "script-name": Proxied, "x-host": Proxied, "x-http-host-override": Proxied, "x-original-host": Proxied,
	"x-original-method": Proxied, "x-original-uri": Proxied, "x-original-url": Proxied, "x-override-url": Proxied, "x-rewrite-url": Proxied,
	"x-script-name": Proxied,
}

// removalLengths has the lengths of the names in removals, as bits, by their first letter.
var removalLengths = func() (lengths [256]uint64) {
	for name := range removals {
		lengths[name[0]] |= 1 << len(name)
		lengths[name[0]-'a'+'A'] |= 1 << len(name)
	}
	return lengths
}()

// forwardedPrefix begins the names of headers that proxies add.
const forwardedPrefix = "x-forwarded-"

// Of returns why a header does not reach the service behind a proxy, in any spelling: servers that turn headers
// into variables read X_Real_IP as X-Real-IP.
func Of(name string) Why {
	if len(name) > len(forwardedPrefix) && name[0]|0x20 == 'x' {
		var space [len(forwardedPrefix)]byte
		if string(spelling.AppendName(space[:0], name[:len(forwardedPrefix)])) == forwardedPrefix {
			return Forwarding
		}
	}
	if name == "" || len(name) >= 64 || removalLengths[name[0]]&(1<<len(name)) == 0 {
		return Stays
	}
	var space [64]byte
	return removals[string(spelling.AppendName(space[:0], name))]
}

// FromClients reports whether a client itself may send a header that reaches the service. methods says whether headers that
// replace the method do.
func (r Why) FromClients(methods bool) bool { return r == Stays || r == Overriding && methods }

// FromProxies reports whether a trusted proxy may send a header by which rules decide. The proxies write it themselves.
func (r Why) FromProxies() bool { return r != PerHop }
