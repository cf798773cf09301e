package proxy

import (
	"net/http"
	"net/http/httputil"
	"strings"
)

// The headers that describe the client and its request.
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

// trailers sets the trailers of in, a copy of the request r. It leaves out trailers that identify
// the client, because services may take them for headers. The trailers are complete after the
// returned function is called, at the end of the body.
func trailers(in, r *http.Request) (complete func()) {
	if r.Trailer == nil {
		return func() {} // trailers that were not announced are not passed on
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

// keep copies a header that was sent.
func keep(out, in http.Header, name string) {
	if v := in[name]; len(v) > 0 {
		out[name] = v
	}
}

// isForwarding reports whether a header identifies the client, in any spelling. Servers that
// pass headers on as variables read X_Real_IP as X-Real-IP.
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
