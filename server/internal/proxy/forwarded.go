package proxy

import (
	"net/http"
	"net/http/httputil"
	"strings"
)

// What trusted proxies may say about the client's request.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
	realIP         = "X-Real-Ip"
)

// forward sets the headers that identify the client to the upstream. The upstream gets only our
// values: neither values that clients write, nor spellings that a service might take for the same
// header. A trusted proxy's value is kept, and the peer added to it.
func (p *Proxy) forward(pr *httputil.ProxyRequest) {
	for name := range pr.Out.Header {
		if isForwarding(name) {
			delete(pr.Out.Header, name)
		}
	}
	in := pr.In.Header
	trusted := p.o.Trusted(peer(pr.In))
	if trusted {
		pr.Out.Header[forwardedFor] = in[forwardedFor]
	}
	pr.SetXForwarded()
	if trusted {
		keep(pr.Out.Header, in, forwardedHost)
		keep(pr.Out.Header, in, forwardedProto)
	}
	if ip := p.o.ClientIP(pr.In); ip.IsValid() {
		pr.Out.Header.Set(realIP, ip.String())
	}
}

// trailers gives in, a copy of the request r, trailers of its own that do not speak of the client
// either: services may take them for headers. They are complete once the function it returns
// is called, at the end of the body.
func trailers(in, r *http.Request) (complete func()) {
	if r.Trailer == nil {
		return func() {} // and none are passed on that were not announced
	}
	passed := make(http.Header, len(r.Trailer))
	complete = func() {
		for name, values := range r.Trailer {
			if !isForwarding(name) {
				passed[name] = values
			}
		}
	}
	complete()
	in.Trailer = passed
	return complete
}

// keep takes over a header that was sent.
func keep(out, in http.Header, name string) {
	if v := in[name]; len(v) > 0 {
		out[name] = v
	}
}

// isForwarding reports whether a header speaks of who the client is, in any
// spelling: servers that hand headers on as variables read X_Real_IP as X-Real-IP.
func isForwarding(name string) bool {
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '.':
			return '-'
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-")
}
