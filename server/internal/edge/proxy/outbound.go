package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// perHop are the headers that are for one connection only (RFC 9110, 7.6.1, and older names).
var perHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// noUserAgent keeps package http from sending its own User-Agent.
var noUserAgent = []string{""}

// outbound makes the request that the upstream gets. It copies the header once, and shares the values.
func (p *Proxy) outbound(ctx context.Context, in *http.Request) *http.Request {
	out := in.WithContext(ctx)
	out.RequestURI, out.Close, out.TransferEncoding = "", in.ContentLength != 0 && !takesBody(in.Method), nil
	if in.ContentLength == 0 {
		out.Body = nil
	}
	out.URL = p.target(in.URL)
	out.Host = canonicalHost(in.Host)
	forwardedAs := out.Host
	if p.o.UpstreamHost {
		out.Host = p.o.Upstream.Host
	}
	out.Header = make(http.Header, len(in.Header)+ownHeaders)
	p.setOutbound(out.Header, in, forwardedAs)
	// Trailers arrive with the end of the body, in the map of the request that came in.
	if out.Trailer != nil && out.ContentLength < 0 {
		// Otherwise the transport would probe whether a GET has a body. It would still read from
		// the body while it reads the announced trailers.
		out.TransferEncoding = []string{"chunked"}
	}
	return out
}

// takesBody reports whether services read the body of a request with a method. A service that leaves a body unread takes it
// for the next requests on the connection, so a body with another method is the last thing on its connection.
func takesBody(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return false
}

// target returns the URL of a request at the upstream.
func (p *Proxy) target(in *url.URL) *url.URL {
	u := *in
	if strings.HasPrefix(u.Path, "//") {
		TrimSlashes(&u)
	}
	query := u.RawQuery
	if p.o.Upstream.RawQuery != "" {
		u.RawQuery = cleanQuery(query)
	}
	out := http.Request{URL: &u}
	(&httputil.ProxyRequest{Out: &out}).SetURL(p.o.Upstream)
	if p.o.Upstream.RawQuery == "" {
		// Pass the query as it was sent, even if Go cannot parse it.
		u.RawQuery = query
	}
	if in.Path == "*" {
		u.Path, u.RawPath = "*", "" // OPTIONS, of the whole service
	}
	return &u
}

// cleanQuery returns a query without the parts that Go cannot parse, if there are any. A query is added to
// the upstream's own only in this form.
func cleanQuery(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return values.Encode()
	}
	return query
}

// ownHeaders is how many headers setOutbound adds.
const ownHeaders = 5

// setOutbound makes the header for the upstream, in an empty one. Services get only our values for headers that
// identify the client: neither values that clients write, nor spellings that a service might take for the same header.
// A trusted proxy's value is kept, and the peer added to it.
func (p *Proxy) setOutbound(out http.Header, in *http.Request, host string) {
	from := peer(in)
	trusted := p.o.Trusted(from)
	for name, values := range in.Header {
		if !perHop[name] && !p.removes(name, trusted) {
			out[name] = values[:len(values):len(values)]
		}
	}
	dropNominated(out, in.Header["Connection"])
	if httpguts.HeaderValuesContainsToken(in.Header["Te"], "trailers") {
		out["Te"] = trailersOnly
	}
	if protocol := in.Header["Upgrade"]; len(protocol) > 0 && httpguts.HeaderValuesContainsToken(in.Header["Connection"], "upgrade") {
		out["Connection"], out["Upgrade"] = []string{"Upgrade"}, protocol[:1]
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = noUserAgent
	}

	values := make([]string, 0, ownHeaders) // one allocation for all of them
	set := func(name, value string) {
		values = append(values, value)
		out[name] = values[len(values)-1 : len(values) : len(values)]
	}
	delete(out, forwardedFor)
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		client = "" // a peer at a Unix socket has no address to add
	}
	chain := client
	if trusted && len(in.Header[forwardedFor]) > 0 {
		if chain = strings.Join(in.Header[forwardedFor], ", "); client != "" {
			chain += ", " + client
		}
	}
	if chain != "" {
		set(forwardedFor, chain)
	}
	set(forwardedHost, host)
	if in.TLS == nil {
		set(forwardedProto, "http")
	} else {
		set(forwardedProto, "https")
	}
	if trusted {
		keep(out, in.Header, forwardedHost)
		keep(out, in.Header, forwardedProto)
	}
	if ip := p.o.ClientIP(in); ip.IsValid() {
		if ip == from && ip.Is4() && !strings.Contains(client, ":") {
			set(realIP, client) // it is the address already
		} else {
			set(realIP, ip.String())
		}
	}
}

// trailersOnly is the one value of TE that passes: the client accepts trailers.
var trailersOnly = []string{"trailers"}

// dropNominated removes the headers that a Connection header lists.
func dropNominated(h http.Header, connection []string) {
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
}

// TrimSlashes leaves one slash at the beginning of a path. Services that resolve a target as a URL would
// take the name after two slashes for a host, and the rest for the path.
func TrimSlashes(u *url.URL) {
	escaped := u.EscapedPath()
	more := len(escaped) - len(strings.TrimLeft(escaped, "/")) - 1
	if more <= 0 {
		return // the path begins with /%2F
	}
	u.Path = u.Path[more:]
	if u.RawPath != "" {
		u.RawPath = u.RawPath[more:]
	}
}
