package proxy

import (
	"net/http"
	"strings"
)

// removal says why a header of a client does not reach the service.
type removal uint8

const (
	// stays: the header is passed on.
	stays removal = iota
	// forwarding: the headers are the proxy's own, see forward.
	forwarding
	// proxied: only proxies set the header, so it stays if a trusted proxy sends it. It names the client, or
	// replaces the path, host or method.
	proxied
	// overriding: it replaces the method. Options.MethodOverride passes it on.
	overriding
	// upgrading: it is for an upgrade to HTTP/2, which is never passed on.
	upgrading
)

// removals are the headers that do not reach the service, in lower case.
var removals = map[string]removal{
	"forwarded": forwarding, "x-real-ip": forwarding,

	"http2-settings": upgrading,

	"x-http-method-override": overriding, "x-http-method": overriding, "x-method-override": overriding,

	// The address of the client, as content delivery networks, clouds and older proxies name it.
	"ali-cdn-real-ip": proxied, "cdn-src-ip": proxied, "cf-connecting-ip": proxied, "cf-connecting-ipv6": proxied,
	"cf-pseudo-ipv4": proxied, "client-ip": proxied, "do-connecting-ip": proxied, "fastly-client-ip": proxied, "fly-client-ip": proxied,
	"forwarded-for": proxied, "forwarded-for-ip": proxied, "incap-client-ip": proxied, "proxy-client-ip": proxied, "remote-addr": proxied,
	"true-client-ip": proxied, "wl-proxy-client-ip": proxied, "x-appengine-remote-addr": proxied, "x-appengine-user-ip": proxied,
	"x-azure-clientip": proxied, "x-azure-socketip": proxied, "x-client-ip": proxied, "x-cluster-client-ip": proxied,
	"x-envoy-external-address": proxied, "x-forwarded": proxied, "x-nf-client-connection-ip": proxied, "x-original-forwarded-for": proxied,
	"x-originating-ip": proxied, "x-proxyuser-ip": proxied, "x-remote-addr": proxied, "x-remote-ip": proxied, "x-sucuri-clientip": proxied,
	"x-vercel-forwarded-for": proxied,

	// The path, host or method, for services that believe these headers rather than the request.
	"path-info": proxied, "script-name": proxied, "x-host": proxied, "x-http-host-override": proxied, "x-original-host": proxied,
	"x-original-method": proxied, "x-original-uri": proxied, "x-original-url": proxied, "x-override-url": proxied, "x-rewrite-url": proxied,
	"x-script-name": proxied,
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

// removalOf returns why a header does not reach the service, in any spelling: servers that turn headers
// into variables read X_Real_IP as X-Real-IP.
func removalOf(name string) removal {
	if len(name) > len(forwardedPrefix) && name[0]|0x20 == 'x' {
		var space [len(forwardedPrefix)]byte
		if string(fold(space[:0], name[:len(forwardedPrefix)])) == forwardedPrefix {
			return forwarding
		}
	}
	if name == "" || len(name) >= 64 || removalLengths[name[0]]&(1<<len(name)) == 0 {
		return stays
	}
	var space [64]byte
	return removals[string(fold(space[:0], name))]
}

// fold appends a name in lower case, with dashes.
func fold(dst []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' || c == '.':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// removes reports whether a header is removed from requests of a peer.
func (p *Proxy) removes(name string, trusted bool) bool {
	switch removalOf(name) {
	case stays:
		return false
	case proxied:
		return !trusted
	case overriding:
		return !p.o.MethodOverride
	default:
		return true
	}
}

// upgrades reports whether the upgrade of a request is passed on: to one protocol, of
// Options.Upgrades. The service could take more requests in another upgrade, past all limits.
func (p *Proxy) upgrades(r *http.Request) bool {
	lines := r.Header["Upgrade"]
	if len(lines) != 1 || r.ContentLength != 0 {
		return false
	}
	for _, protocol := range p.o.Upgrades {
		if strings.EqualFold(lines[0], protocol) {
			return true
		}
	}
	return false
}
