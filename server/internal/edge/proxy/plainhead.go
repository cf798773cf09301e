package proxy

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/direct"
)

// plainHead has room for the head of a request.
type plainHead struct {
	header http.Header
	text   []byte
}

var heads = sync.Pool{New: func() any { return &plainHead{http.Header{}, make([]byte, 0, 2<<10)} }}

// carryPlain carries a request on the direct path, and its answer back. It returns false, and has done nothing, if the
// request is not plain.
func (p *Proxy) carryPlain(ctx context.Context, a *answer, r *http.Request) bool {
	h := heads.Get().(*plainHead)
	defer heads.Put(h)
	head, ok := p.appendPlain(h.text[:0], h.header, r)
	clear(h.header) // it would keep the request's values
	if !ok || len(head) > direct.MostHead {
		return false
	}
	h.text = head
	got, err := p.direct.Send(ctx, direct.Request{Request: r, Address: p.address, Head: head, Steps: a})
	if got.Plain != nil {
		p.passPlain(a, got.Plain, got.Conn)
	} else {
		p.deliver(ctx, a, r, got.Response, got.Conn, err)
	}
	return true
}

var _ direct.Steps = (*answer)(nil)

// Forwarded implements direct.Steps.
func (a *answer) Forwarded() { a.passage.forward() }

// Withdrawn implements direct.Steps.
func (a *answer) Withdrawn() { a.passage.withdraw() }

// Outlasts implements direct.Steps.
func (a *answer) Outlasts() bool { return a.passage != nil }

// Interim implements direct.Steps.
func (a *answer) Interim(status int, header http.Header) error { return a.interim.pass(status, header) }

// appendPlain appends the head of a plain request as http.Request.Write writes outbound's request, except for the order
// of the headers. No request is built in between, and the header only in an empty one. It returns false for a request
// that is not plain.
func (p *Proxy) appendPlain(b []byte, header http.Header, in *http.Request) ([]byte, bool) {
	u := in.URL
	if in.ContentLength != 0 || in.TransferEncoding != nil || in.Trailer != nil || in.Method == http.MethodConnect ||
		u.Path == "" || strings.HasPrefix(u.Path, "//") || u.ForceQuery || !httpguts.ValidHeaderFieldName(in.Method) || p.upgrades(in) {
		return b, false
	}
	if p.below || p.o.Upstream.RawQuery != "" {
		u = p.target(u)
	}
	path := u.EscapedPath()
	forwardedAs := canonicalHost(in.Host)
	host := forwardedAs
	if p.o.UpstreamHost {
		host = p.o.Upstream.Host
	}
	if !isVisible(path) || path[0] != '/' || !isPlainHost(host) || u.RawQuery != "" && !isVisible(u.RawQuery) {
		return b, false
	}
	b = append(b, in.Method...)
	b = append(b, ' ')
	b = append(b, path...)
	if u.RawQuery != "" {
		b = append(b, '?')
		b = append(b, u.RawQuery...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	p.setOutbound(header, in, forwardedAs)
	for name, values := range header {
		switch name {
		case "Expect":
			return b, false
		case "Host", "Content-Length", "Connection", "Upgrade": // package http writes the former, and the request has no upgrade
			continue
		case "User-Agent":
			if len(values) == 0 || values[0] == "" {
				continue
			}
			values = values[:1]
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return b, false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return b, false
			}
			b = appendField(b, name, value)
		}
	}
	return appendLength(b, in.Method), true
}

// appendField appends a header.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, textproto.TrimString(value)...)
	return append(b, "\r\n"...)
}

// appendLength ends the head of a request without a body. Many services expect a length with these methods.
func appendLength(b []byte, method string) []byte {
	if takesBody(method) {
		b = append(b, "Content-Length: 0\r\n"...)
	}
	return append(b, "\r\n"...)
}

// hostBytes are the bytes of plain hosts.
var hostBytes = func() (set [256]bool) {
	for c := range set {
		set[c] = '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80 || strings.IndexByte("-._:[]", byte(c)) >= 0
	}
	return set
}()

// isPlainHost reports whether package http would write a host as it is.
func isPlainHost(s string) bool {
	for i := range len(s) {
		if !hostBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// isVisible reports whether a target has no control character and no space.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}
