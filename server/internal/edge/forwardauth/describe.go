package forwardauth

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/sluicehq/sluice/httplimit"
)

// The headers by which gateways describe a request, in canonical form.
const (
	originalURI    = "X-Original-Uri"
	originalMethod = "X-Original-Method"
	originalHost   = "X-Original-Host"
	realIP         = "X-Real-Ip"

	forwardedURI    = "X-Forwarded-Uri"
	forwardedMethod = "X-Forwarded-Method"
	forwardedHost   = "X-Forwarded-Host"
	forwardedFor    = "X-Forwarded-For"
)

// set is the headers of one kind of gateway: its method, target and host.
type set struct{ method, target, host string }

var (
	original  = set{originalMethod, originalURI, originalHost}
	forwarded = set{forwardedMethod, forwardedURI, forwardedHost}
)

// describe fills in the report of the request that a gateway describes, and returns the set of headers that the gateway
// uses. It changes and keeps the header of the gateway's request.
//
// A header counts only if the gateway must have written it. So a set of headers must be complete. If a gateway omits
// one of the headers, no request gets a decision, so Sluice never believes a client that sends that header.
func describe(r *http.Request, q *httplimit.Report) (*set, *problem) {
	h := r.Header
	has := func(name string) bool { return len(h[name]) > 0 }
	hasOriginal := has(originalURI) || has(originalMethod) || has(originalHost)
	hasForwarded := has(forwardedURI) || has(forwardedMethod)
	use, prefix := &original, "X-Original"
	switch {
	case hasOriginal && hasForwarded:
		if differ(h, originalURI, forwardedURI) || differ(h, originalMethod, forwardedMethod) || differ(h, originalHost, forwardedHost) {
			return nil, errTwoSets
		}
		if !has(originalURI) || !has(originalMethod) || !has(originalHost) {
			use, prefix = &forwarded, "X-Forwarded"
		}
	case hasForwarded:
		use, prefix = &forwarded, "X-Forwarded"
	case !hasOriginal:
		return nil, errNoSet
	}
	var bad *problem
	if q.Method, bad = single(h, use.method, prefix); bad != nil {
		return use, bad
	}
	if q.Target, bad = single(h, use.target, prefix); bad != nil {
		return use, bad
	}
	if q.Host, bad = single(h, use.host, prefix); bad != nil {
		return use, bad
	}
	if bad := client(h, use == &original, q); bad != nil {
		return use, bad
	}
	for _, name := range [...]string{originalURI, originalMethod, originalHost, forwardedURI, forwardedMethod, forwardedHost, realIP, "Content-Length"} {
		delete(h, name) // they are the gateway's, and not the client's
	}
	q.Header = h
	return use, nil
}

// differ reports whether a request has both headers, with different values.
func differ(h http.Header, a, b string) bool {
	return len(h[a]) > 0 && len(h[b]) > 0 && (len(h[a]) > 1 || len(h[b]) > 1 || h[a][0] != h[b][0])
}

// queryOf returns the query of a target.
func queryOf(target string) string {
	_, query, _ := strings.Cut(target, "?")
	return query
}

// single returns the value of a header that the gateway must send once.
func single(h http.Header, name, prefix string) (string, *problem) {
	lines := h[name]
	switch {
	case len(lines) == 0 || len(lines) == 1 && lines[0] == "":
		return "", missing(name, prefix)
	case len(lines) > 1:
		return "", repeated(name)
	}
	return lines[0], nil
}

// client fills in the address of the gateway's peer: X-Real-IP if the request has it, or the last address of
// X-Forwarded-For. The peer wrote the rest of X-Forwarded-For. If the request has both headers, the client may have
// written one of them, so they must have the same address.
func client(h http.Header, original bool, q *httplimit.Report) *problem {
	lines := h[forwardedFor]
	peer := h[realIP]
	if !original {
		peer = nil // Traefik passes on the header of a trusted peer
	}
	switch {
	case len(peer) > 1:
		return repeated(realIP)
	case len(lines) == 0 && len(peer) == 0:
		if original {
			return errNoAddress
		}
		return missing(forwardedFor, "X-Forwarded")
	case len(peer) == 1:
		q.RemoteAddr = peer[0]
	}
	if len(lines) > 0 {
		line := lines[len(lines)-1]
		comma := strings.LastIndexByte(line, ',')
		last := strings.Trim(line[comma+1:], " \t")
		if q.RemoteAddr == "" {
			q.RemoteAddr = last
		} else if q.RemoteAddr != last && addressOf(q.RemoteAddr) != addressOf(last) {
			return errTwoAddresses
		}
		switch {
		case comma >= 0:
			lines[len(lines)-1] = strings.TrimRight(line[:comma], " \t")
		case len(lines) > 1:
			h[forwardedFor] = lines[:len(lines)-1]
		default:
			delete(h, forwardedFor)
		}
	}
	if q.RemoteAddr != "unix:" && !addressOf(q.RemoteAddr).IsValid() {
		return errAddress
	}
	return nil
}

// addressOf reads an address with or without a port; invalid for another text.
func addressOf(text string) netip.Addr {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().WithZone("")
	}
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
