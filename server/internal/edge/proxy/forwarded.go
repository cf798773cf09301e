package proxy

import (
	"net/http"
	"strings"

	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/internal/spelling"
)

// The headers that describe the client and its request.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
	realIP         = "X-Real-Ip"
)

// canonicalHost returns the canonical spelling of a host with its port. Some services compare a host byte
// by byte; rules do not.
func canonicalHost(host string) string {
	name, port := spelling.Host(host), ""
	if i := strings.LastIndexByte(host, ':'); i > strings.IndexByte(host, ']') {
		port = host[i:]
	}
	if port == ":" {
		port = ""
	}
	if strings.HasPrefix(host, name) && len(host) == len(name)+len(port) {
		return host
	}
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	return name + port
}

// trailers sets the trailers of in, a copy of the request r. It leaves out trailers that would be
// removed as headers, because services may take them for headers. The trailers are complete after the
// returned function is called, at the end of the body.
func trailers(in, r *http.Request) (complete func()) {
	if r.Trailer == nil {
		return func() {} // trailers that were not announced are not passed on
	}
	passed := make(http.Header, len(r.Trailer))
	complete = func() {
		for name, values := range r.Trailer {
			if removal.Of(name) == removal.Stays {
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
