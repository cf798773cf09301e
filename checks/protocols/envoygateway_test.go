package protocols

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluicehq/sluice/checks/process"
)

// gateway does what Envoy does with requests: it reports them to external authorization, or makes a descriptor of the client's
// address for the rate limit service, and passes them on to a service as the client sent them.
type gateway struct {
	testing.TB
	*envoy
	auth    authpb.AuthorizationClient
	raw     bool              // encode_raw_headers
	filter  func(http.Header) // before external authorization; nil for none
	service *httptest.Server
	front   *httptest.Server

	mu  sync.Mutex
	got []*http.Request // by the service
}

// newGateway starts a gateway in front of a service. It reports requests, or with descriptors calls the rate limit service.
func newGateway(tb testing.TB, s *process.Sluice, descriptors, raw bool) *gateway {
	tb.Helper()
	g := &gateway{TB: tb, envoy: dialEnvoy(tb, s), raw: raw}
	g.auth = authpb.NewAuthorizationClient(g.conn)
	g.service = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.got = append(g.got, r)
		g.mu.Unlock()
	}))
	tb.Cleanup(g.service.Close)
	handle := g.report
	if descriptors {
		handle = g.limit
	}
	g.front = httptest.NewUnstartedServer(http.HandlerFunc(handle))
	g.front.Config.DisableGeneralOptionsHandler = true
	g.front.Start()
	tb.Cleanup(g.front.Close)
	return g
}

// take returns what the service got since the last time.
func (g *gateway) take() []*http.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	got := g.got
	g.got = nil
	return got
}

// report lets external authorization decide about a request.
func (g *gateway) report(w http.ResponseWriter, r *http.Request) {
	q := &authpb.AttributeContext_HttpRequest{Method: r.Method, Path: r.RequestURI, Host: r.Host, Scheme: "http", Protocol: r.Proto, Size: -1}
	header := r.Header.Clone()
	if g.filter != nil {
		g.filter(header)
	}
	host, port, _ := net.SplitHostPort(r.RemoteAddr)
	header["X-Forwarded-For"] = []string{strings.Join(append(header["X-Forwarded-For"], host), ",")} // use_remote_address
	if g.raw {
		q.HeaderMap = &corepb.HeaderMap{}
	} else {
		q.Headers = map[string]string{":method": r.Method, ":path": r.RequestURI, ":authority": r.Host}
	}
	for name, lines := range header {
		key := strings.ToLower(name)
		if !g.raw {
			q.Headers[key] = strings.Join(lines, ",")
			continue
		}
		for _, line := range lines {
			q.HeaderMap.Headers = append(q.HeaderMap.Headers, &corepb.HeaderValue{Key: key, RawValue: []byte(line)})
		}
	}
	n, _ := strconv.ParseUint(port, 10, 16)
	ctx, cancel := context.WithTimeout(r.Context(), process.Patience)
	defer cancel()
	v, err := g.auth.Check(ctx, &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{
			SocketAddress: &corepb.SocketAddress{Address: host, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(n)}},
		}}},
		Request: &authpb.AttributeContext_Request{Http: q},
	}})
	if err != nil {
		g.Errorf("checking %s %s failed: %v", r.Method, r.RequestURI, err)
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if d := v.GetDeniedResponse(); d != nil {
		for _, h := range d.GetHeaders() {
			w.Header().Set(h.GetHeader().GetKey(), h.GetHeader().GetValue())
		}
		w.WriteHeader(int(d.GetStatus().GetCode()))
		_, _ = io.WriteString(w, d.GetBody()) // the client may be gone
		return
	}
	ok := v.GetOkResponse()
	for _, h := range ok.GetHeaders() {
		header.Set(h.GetHeader().GetKey(), h.GetHeader().GetValue())
	}
	for _, name := range ok.GetHeadersToRemove() {
		header.Del(name)
	}
	for _, h := range ok.GetResponseHeadersToAdd() {
		w.Header().Set(h.GetHeader().GetKey(), h.GetHeader().GetValue())
	}
	g.pass(w, r, header)
}

// limit calls the rate limit service about the address of the client.
func (g *gateway) limit(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	v := g.answer(call(one("remote_address", host)))
	for _, h := range v.GetResponseHeadersToAdd() {
		w.Header().Set(h.GetKey(), h.GetValue())
	}
	if v.GetOverallCode() != ratelimitpb.RateLimitResponse_OK {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(v.GetRawBody()) // the same
		return
	}
	g.pass(w, r, r.Header)
}

// pass passes a request on.
func (g *gateway) pass(w http.ResponseWriter, r *http.Request, header http.Header) {
	out := r.Clone(r.Context())
	out.RequestURI, out.Header = "", header
	out.URL = &url.URL{Scheme: "http", Host: strings.TrimPrefix(g.service.URL, "http://"), Opaque: r.RequestURI}
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway) // not every request can be passed on
		return
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
}

// reply is an answer of the gateway.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends the text of a request from an address, and returns the answer.
func (g *gateway) send(client, text string) reply {
	g.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: process.Patience}
	c, err := d.DialContext(g.Context(), "tcp", g.front.Listener.Addr().String())
	if err != nil {
		g.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		g.Fatal(err)
	}
	if !strings.Contains(text, "\nHost:") {
		text += "\nHost: www.example.com"
	}
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")+"\r\nConnection: close\r\n\r\n"); err != nil {
		g.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		g.Fatalf("no response to %q: %v", text, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		g.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

const forGateway = `listen: {proxy: 'off', api: 'off', admin: 'off', grpc: '127.0.0.1:0'}
rules:
  - name: per-address
    descriptor: {domain: edge, entries: [remote_address]}
    limit: {algorithm: token_bucket, rate: 3/d, burst: 3}
  - name: login
    match: {path: /login, method: POST}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 3/d, burst: 3}
    when_limited: {status: 429, body: 'wait', content_type: text/plain}
  - name: per-user
    match: {path: /user}
    key: [{part: 'header:X-User', on_missing: deny}]
    limit: {algorithm: token_bucket, rate: 1/d, burst: 1}
`

// TestEnvoyLimitsTraffic sends requests through a gateway that decides by each of Envoy's protocols.
func TestEnvoyLimitsTraffic(t *testing.T) {
	t.Parallel()
	s := serve(t, forGateway)
	for _, descriptors := range []bool{false, true} {
		g := newGateway(t, s, descriptors, true)
		var statuses []int
		for range 5 {
			got := g.send("127.0.0.2", "POST /login HTTP/1.1\nContent-Length: 0")
			statuses = append(statuses, got.status)
			limited := got.status == http.StatusTooManyRequests
			if limited != (got.header.Get("Retry-After") == "28800") || limited && !descriptors && got.body != "wait" || got.header.Get("Ratelimit") == "" {
				t.Errorf("the response lacks the headers or the body of its limit: %+v", got)
			}
		}
		if want := []int{200, 200, 200, 429, 429}; !slices.Equal(statuses, want) {
			t.Errorf("descriptors %t: %v", descriptors, statuses)
		}
		if got := g.send("127.0.0.3", "POST /login HTTP/1.1\nContent-Length: 0"); got.status != http.StatusOK {
			t.Errorf("descriptors %t: another client gets %d", descriptors, got.status)
		}
		if got := g.take(); len(got) != 4 {
			t.Errorf("descriptors %t: the service got %d requests", descriptors, len(got))
		}
	}
}

// TestEnvoyAttacks sends what clients do to escape a limit that is used up. None of it reaches the service as a request that
// the limit counts, and no other client pays.
func TestEnvoyAttacks(t *testing.T) {
	t.Parallel()
	for _, raw := range []bool{true, false} {
		t.Run(fmt.Sprintf("raw headers %t", raw), func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, serve(t, forGateway), false, raw)
			for range 3 {
				g.send("127.0.0.2", "POST /login HTTP/1.1\nContent-Length: 0")
			}
			g.take()
			try := func(text string) {
				status := g.send("127.0.0.2", text).status
				for _, r := range g.take() {
					overridden := r.Header.Get("X-Http-Method-Override") != "" || r.Header.Get("X-Original-Url") != ""
					if path := strings.TrimSuffix(r.URL.Path, "/"); overridden || r.Method == http.MethodPost && (path == "/login" || path == "//login") {
						t.Errorf("got past the rule, with answer %d:\n%s\nthe service got %s %s %v", status, text, r.Method, r.RequestURI, r.Header)
					}
				}
			}
			for _, lines := range []string{
				"X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 127.0.0.1", "X-Forwarded-For: 127.0.0.1\nX-Forwarded-For: 203.0.113.7", "X-Real-IP: 203.0.113.7", "Forwarded: for=203.0.113.7",
				"X-Envoy-External-Address: 203.0.113.7", "X_Forwarded_For: 203.0.113.7", "X-Forwarded-For: unknown", "X-HTTP-Method-Override: GET", "X-Original-URL: /login", "Sluice-Marked: x",
				"Connection: X-Forwarded-For, X-User", "Upgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__",
			} {
				try("POST /login HTTP/1.1\nContent-Length: 0\n" + lines)
				try("GET /free HTTP/1.1\n" + lines)
			}
			for _, target := range []string{"/login/", "//login", "/./login", "/x/../login", "/%6cogin", "/login?x#y", "/%2e/login", "http://www.example.com/login", "http://free.example/login", "/LOGIN/../login"} {
				for _, begin := range []string{"POST ", "post ", "Post "} {
					try(begin + target + " HTTP/1.1\nContent-Length: 0")
				}
				try("POST " + target + " HTTP/1.1\nContent-Length: 0\nHost: www.example.com:80")
			}
			if got := g.send("127.0.0.3", "POST /login HTTP/1.1\nContent-Length: 0\nX-Forwarded-For: 127.0.0.2"); got.status != http.StatusOK {
				t.Errorf("another client pays: %d", got.status)
			}

			// The service reads the first or the last of two lines.
			if got := g.send("127.0.0.2", "GET /user HTTP/1.1\nX-User: a"); got.status != http.StatusOK {
				t.Fatalf("the first request of user a got %d", got.status)
			}
			g.take()
			for _, lines := range []string{"X-User: a\nX-User: b", "X-User: b\nX-User: a", "X-User: b\nX_User: a", "X-User: a", "x-user: a "} {
				g.send("127.0.0.2", "GET /user HTTP/1.1\n"+lines)
				for _, r := range g.take() {
					t.Errorf("%q reaches the service: %v", lines, r.Header)
				}
			}
		})
	}
}

// TestEnvoyPlans sends requests through a gateway that names the plan of each, as Envoy does with a claim of a verified token. What a
// client sends about its plan never counts.
func TestEnvoyPlans(t *testing.T) {
	t.Parallel()
	s := serve(t, `listen: {proxy: 'off', api: 'off', admin: 'off', grpc: '127.0.0.1:0'}
plans: {gold: {tenants: {rate: 50/d}}}
plan_from: "header:X-Plan"
rules: [{name: tenants, match: {path: /plans}, key: "header:X-Tenant", limit: {algorithm: token_bucket, rate: 5/d}}]
`)
	for _, raw := range []bool{true, false} {
		g := newGateway(t, s, false, raw)
		g.filter = func(h http.Header) {
			if h.Del("X-Plan"); h.Get("X-Tenant") == "acme" {
				h.Set("X-Plan", "gold")
			}
		}
		for i, lines := range []string{"", "\nX-Plan: gold", "\nx-plan: gold", "\nX-Plan: gold\nX-Plan: gold", "\nX_Plan: gold", "\nX-Plan:\nX_PLAN: gold", "\nX-Plan: gold\nX-Forwarded-For: 127.0.0.1"} {
			got := g.send("127.0.0.2", fmt.Sprintf("GET /plans HTTP/1.1\nX-Tenant: small%d%s", i, lines))
			if quota := got.header.Get("Ratelimit-Policy"); got.status != http.StatusOK || !strings.HasPrefix(quota, `"tenants";q=5;`) {
				t.Errorf("raw headers %t: a client that sends %q gets %d %q, want 5 units", raw, lines, got.status, quota)
			}
			// A client with a plan keeps it, or has the rule's own numbers if another spelling contradicts it.
			got = g.send("127.0.0.2", "GET /plans HTTP/1.1\nX-Tenant: acme"+lines)
			want := `"tenants";q=50;`
			if strings.Contains(strings.ToLower(lines), "x_plan") {
				want = `"tenants";q=5;`
			}
			if quota := got.header.Get("Ratelimit-Policy"); !strings.HasPrefix(quota, want) {
				t.Errorf("raw headers %t: a client with a plan that sends %q gets %d %q, want %s", raw, lines, got.status, quota, want)
			}
		}
	}
}
