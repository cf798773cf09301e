package extauthz

import (
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/sluicehq/sluice/httplimit"
)

// The reasons why a call gets no decision.
const (
	noRequest = "the call reports no HTTP request; use the HTTP filter ext_authz, and not the network filter"
	noSource  = "the call has no source address; it comes from Envoy's filter ext_authz"
	noAddress = "the source address is not an IP address; Envoy's filter ext_authz reports the peer of the connection"
	twoForms  = "the call has headers and header_map; Envoy sends one of them"
)

// report returns the request that a call describes, or why the description is unusable.
func (s *Service) report(a *authpb.AttributeContext) (_ *httplimit.Report, reason string) {
	r := a.GetRequest().GetHttp()
	if r == nil {
		return nil, noRequest
	}
	q := &httplimit.Report{Method: r.GetMethod(), Target: r.GetPath(), Host: r.GetHost()}
	switch at := a.GetSource().GetAddress().GetAddress().(type) {
	case *corepb.Address_SocketAddress:
		if _, err := netip.ParseAddr(at.SocketAddress.GetAddress()); err != nil {
			return nil, noAddress
		}
		q.RemoteAddr = net.JoinHostPort(at.SocketAddress.GetAddress(), strconv.FormatUint(uint64(at.SocketAddress.GetPortValue()), 10))
	case *corepb.Address_Pipe:
		q.RemoteAddr = "" // a peer without an address
	default:
		return nil, noSource
	}
	raw := r.GetHeaderMap().GetHeaders()
	if len(raw) > 0 && len(r.GetHeaders()) > 0 {
		return nil, twoForms
	}
	q.Header = make(http.Header, len(raw)+len(r.GetHeaders()))
	for _, h := range raw {
		value := string(h.GetRawValue())
		if value == "" {
			value = h.GetValue()
		}
		if !isPseudo(h.GetKey()) {
			q.Add(h.GetKey(), value)
		}
	}
	if len(r.GetHeaders()) > 0 {
		s.addJoined(q, r.GetHeaders())
	}
	return q, ""
}

// addJoined adds headers whose lines Envoy has joined with commas. A line with a comma cannot be distinguished from two
// lines, and the service may read either line. So if rules read the header, it counts as two lines. With
// encode_raw_headers, Envoy sends single lines.
func (s *Service) addJoined(q *httplimit.Report, headers map[string]string) {
	read := s.decider.Policy().ReadHeaders()
	for key, value := range headers {
		if isPseudo(key) {
			continue
		}
		if first, rest, joined := strings.Cut(value, ","); joined {
			if name := textproto.CanonicalMIMEHeaderKey(key); name != httplimit.XForwardedFor && slices.Contains(read, name) {
				q.Add(key, strings.Trim(first, " \t"))
				value = strings.Trim(rest, " \t")
			}
		}
		q.Add(key, value)
	}
}

// isPseudo reports whether a header is one of HTTP/2 for the method, path or host, which have fields of their own.
func isPseudo(name string) bool { return strings.HasPrefix(name, ":") }
