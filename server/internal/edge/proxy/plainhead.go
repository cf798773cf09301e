package proxy

import (
	"net"
	"net/http"
	"net/textproto"
	"strings"
)

// appendPlain appends the head of a plain request as the upstream gets it: appendHead of outbound, without the request
// and the header between. It returns false for a request that is not plain.
func (p *Proxy) appendPlain(b []byte, in *http.Request) ([]byte, bool) {
	u := in.URL
	if in.ContentLength != 0 || in.TransferEncoding != nil || in.Trailer != nil || in.Method == http.MethodConnect ||
		u.Path == "" || strings.HasPrefix(u.Path, "//") || u.ForceQuery || !isToken(in.Method) {
		return b, false
	}
	path := u.EscapedPath()
	forwardedAs := canonicalHost(in.Host)
	host := forwardedAs
	if p.o.UpstreamHost {
		host = p.o.Upstream.Host
	}
	if !isVisible(path) || path[0] != '/' || !isPlainHost(host) || !isFieldValue(forwardedAs) {
		return b, false
	}
	b = append(b, in.Method...)
	b = append(b, ' ')
	b = append(b, path...)
	if u.RawQuery != "" {
		if !isVisible(u.RawQuery) {
			return b, false
		}
		b = append(b, '?')
		b = append(b, u.RawQuery...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)

	from := peer(in)
	trusted := p.o.Trusted(from)
	h := in.Header
	for name, values := range h {
		switch name {
		case "Connection":
			if !connectsOnly(values) {
				return b, false
			}
			continue
		case "Upgrade", "Expect":
			return b, false
		case "Te":
			if !hasToken(values, "trailers") {
				continue
			}
			values = trailersOnly
		case "User-Agent":
			if len(values) == 0 || values[0] == "" {
				continue
			}
			values = values[:1]
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer",
			"Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization":
			continue
		default:
			if p.removes(name, trusted) {
				continue
			}
			if !isToken(name) {
				return b, false
			}
		}
		for _, value := range values {
			if !isFieldValue(value) {
				return b, false
			}
			b = appendField(b, name, value)
		}
	}
	b, ok := appendForwarded(b, in, forwardedAs, trusted)
	if !ok {
		return b, false
	}
	if ip := p.o.ClientIP(in); ip.IsValid() {
		b = append(b, realIP+": "...)
		b = ip.AppendTo(b)
		b = append(b, "\r\n"...)
	}
	return appendLength(b, in.Method), true
}

// appendForwarded appends the headers that describe the client, as outboundHeader sets them.
func appendForwarded(b []byte, in *http.Request, host string, trusted bool) ([]byte, bool) {
	if trusted && len(in.Header[forwardedFor]) > 1 {
		return b, false // a chain in several lines
	}
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		client = "" // a peer at a Unix socket has no address to add
	}
	sent := in.Header[forwardedFor]
	if chained := trusted && len(sent) > 0; client != "" || chained && sent[0] != "" {
		b = append(b, forwardedFor+": "...)
		if chained {
			if !isFieldValue(sent[0]) {
				return b, false
			}
			b = append(b, strings.TrimLeft(sent[0], " \t")...)
			if client != "" {
				b = append(b, ", "...)
			}
		}
		b = append(b, client...)
		b = append(b, "\r\n"...)
	}
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	for _, own := range [...]struct{ name, value string }{{forwardedHost, host}, {forwardedProto, proto}} {
		if sent := in.Header[own.name]; trusted && len(sent) > 0 {
			for _, value := range sent {
				if !isFieldValue(value) {
					return b, false
				}
				b = appendField(b, own.name, value)
			}
			continue
		}
		b = appendField(b, own.name, own.value)
	}
	return b, true
}

// appendField appends a header.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, textproto.TrimString(value)...)
	return append(b, "\r\n"...)
}

// connectsOnly reports whether a Connection header lists no other header.
func connectsOnly(lines []string) bool {
	for _, line := range lines {
		if line != "keep-alive" && line != "close" {
			return false
		}
	}
	return true
}
