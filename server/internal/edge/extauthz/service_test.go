package extauthz

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"google.golang.org/grpc/status"
)

// world is a service by the rules of a file, which trusts 10.0.0.0/8.
type world struct {
	*Service
	t        *testing.T
	gate     *gate.Gate
	actions  []policy.Action // of the verdicts that were observed
	unusable []string
}

func newWorld(t *testing.T, rules string) *world {
	t.Helper()
	w := &world{t: t}
	decider, gate := edgetest.Gateway(t, rules, gateway.Options{
		OnVerdict:    func(v *policy.Verdict, _ time.Duration) { w.actions = append(w.actions, v.Action) },
		Unusable:     func(reason string) { w.unusable = append(w.unusable, reason) },
		AnswerFailed: func(err error) { t.Error(err) },
	}, "10.0.0.0/8")
	w.gate, w.Service = gate, New(decider)
	return w
}

// request is a call about a GET of a path, from a peer, with headers in pairs.
func request(path, peer string, headers ...string) *authpb.CheckRequest {
	h := &authpb.AttributeContext_HttpRequest{Method: "GET", Path: path, Host: "example.com", Headers: map[string]string{":path": path}}
	for i := 0; i < len(headers); i += 2 {
		h.Headers[headers[i]] = headers[i+1]
	}
	return call(h, peer)
}

// raw is request with headers in the order of the list, each with a line of its own.
func raw(path, peer string, headers ...string) *authpb.CheckRequest {
	h := &authpb.AttributeContext_HttpRequest{Method: "GET", Path: path, Host: "example.com", HeaderMap: &corepb.HeaderMap{}}
	for i := 0; i < len(headers); i += 2 {
		h.HeaderMap.Headers = append(h.HeaderMap.Headers, &corepb.HeaderValue{Key: headers[i], RawValue: []byte(headers[i+1])})
	}
	return call(h, peer)
}

func call(h *authpb.AttributeContext_HttpRequest, peer string) *authpb.CheckRequest {
	return &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{
			SocketAddress: &corepb.SocketAddress{Address: peer, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request: &authpb.AttributeContext_Request{Http: h},
	}}
}

// check returns the answer in a line: the status of a denial, or OK, then the changes of headers.
func (w *world) check(q *authpb.CheckRequest) string {
	w.t.Helper()
	v, err := w.Check(w.t.Context(), q)
	if err != nil {
		return status.Code(err).String()
	}
	return shown(v)
}

func shown(v *authpb.CheckResponse) string {
	var b strings.Builder
	write := func(sign string, all []*corepb.HeaderValueOption) {
		for _, h := range all {
			if name := h.GetHeader().GetKey(); !strings.HasPrefix(name, "Ratelimit") {
				fmt.Fprintf(&b, " %s%s:%s", sign, name, h.GetHeader().GetValue())
			}
		}
	}
	if ok := v.GetOkResponse(); ok != nil {
		fmt.Fprintf(&b, "%d", v.GetStatus().GetCode())
		write("", ok.GetHeaders())
		for _, name := range ok.GetHeadersToRemove() {
			b.WriteString(" -" + name)
		}
		write("<", ok.GetResponseHeadersToAdd())
		return b.String()
	}
	d := v.GetDeniedResponse()
	fmt.Fprintf(&b, "%d %d", v.GetStatus().GetCode(), d.GetStatus().GetCode())
	write("<", d.GetHeaders())
	if body := d.GetBody(); !strings.HasPrefix(body, "{") {
		b.WriteString(" " + body)
	}
	return b.String()
}

const problem = " <Cache-Control:no-store <Content-Type:application/problem+json <Retry-After:3600 <X-Content-Type-Options:nosniff"

const perClient = "rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]\n"

// TestWhoIsCounted checks whose budget a request takes: the peer of Envoy, or the client that trusted proxies name.
func TestWhoIsCounted(t *testing.T) {
	for _, x := range []struct {
		name string
		q    *authpb.CheckRequest
		same bool // as 192.0.2.1
	}{
		{"the same peer", request("/", "192.0.2.1"), true},
		{"another peer", request("/", "192.0.2.2"), false},
		{"a forged header", request("/", "192.0.2.1", "x-forwarded-for", "192.0.2.2"), true},
		{"a forged header with the peer that Envoy appended", request("/", "192.0.2.1", "x-forwarded-for", "192.0.2.2,192.0.2.1"), true},
		{"forged headers", request("/", "192.0.2.1", "x-real-ip", "192.0.2.2", "forwarded", "for=192.0.2.2", "x-envoy-external-address", "192.0.2.2"), true},
		{"through a trusted proxy", request("/", "10.0.0.1", "x-forwarded-for", "192.0.2.1"), true},
		{"through a trusted proxy, appended", request("/", "10.0.0.1", "x-forwarded-for", "203.0.113.1,192.0.2.1,10.0.0.1"), true},
		{"another client of a trusted proxy", request("/", "10.0.0.1", "x-forwarded-for", "192.0.2.2"), false},
		{"raw headers", raw("/", "10.0.0.1", "x-forwarded-for", "192.0.2.2", "x-forwarded-for", "192.0.2.1"), true},
		{"a mapped address", request("/", "::ffff:192.0.2.1"), true},
	} {
		w := newWorld(t, perClient)
		if got := w.check(request("/", "192.0.2.1")); got != "0" {
			t.Fatalf("%s: the first request got %s", x.name, got)
		}
		want := "0"
		if x.same {
			want = "8 429" + problem
		}
		if got := w.check(x.q); got != want {
			t.Errorf("%s: %s; want %s", x.name, got, want)
		}
		if len(w.actions) != 2 {
			t.Errorf("%s: want two decisions, got %v", x.name, w.actions)
		}
	}
}

// TestSpellingsTakeNoOtherBudget checks that no spelling of a request takes another budget than the service would see.
func TestSpellingsTakeNoOtherBudget(t *testing.T) {
	const refused = "7 400 <Cache-Control:no-store <Content-Type:application/problem+json <X-Content-Type-Options:nosniff"
	const limited = "8 429" + problem
	for _, x := range []struct {
		name, want string
		change     func(h *authpb.AttributeContext_HttpRequest)
	}{
		{"the same path", limited, func(*authpb.AttributeContext_HttpRequest) {}},
		{"two slashes", limited, func(h *authpb.AttributeContext_HttpRequest) { h.Path = "/a//b" }},
		{"dots", limited, func(h *authpb.AttributeContext_HttpRequest) { h.Path = "/a/./b?x=1" }},
		{"an escape", limited, func(h *authpb.AttributeContext_HttpRequest) { h.Path = "/%61/b" }},
		{"another path", "0", func(h *authpb.AttributeContext_HttpRequest) { h.Path = "/c" }},
		{"another case of the method", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Method = "get" }},
		{"two slashes at the beginning", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Path = "//a/b" }},
		{"a fragment", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Path = "/a/b#c" }},
		{"a host with two ports", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Host = "example.com:1:2" }},
		{"another method", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Headers["x-http-method-override"] = "POST" }},
		{"an upgrade", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Headers["upgrade"] = "h2c" }},
		{"no path", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Path = "" }},
		{"no host", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Host = "" }},
		{"a value with white space", refused, func(h *authpb.AttributeContext_HttpRequest) { h.Headers["x-user"] = " a" }},
	} {
		w := newWorld(t, "rules: [{name: one, match: {path: /a/b, method: GET}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]\n")
		if got := w.check(request("/a/b", "192.0.2.1")); got != "0" {
			t.Fatalf("%s: the first request got %s", x.name, got)
		}
		q := request("/a/b", "192.0.2.1")
		x.change(q.GetAttributes().GetRequest().GetHttp())
		if got := w.check(q); got != x.want {
			t.Errorf("%s: %s; want %s", x.name, got, x.want)
		}
	}
}

// TestRepeatedHeaders checks that a client that sends a header twice gets no fresh budget, although Envoy joins the lines.
func TestRepeatedHeaders(t *testing.T) {
	w := newWorld(t, "rules: [{name: one, key: [{part: 'header:X-User', on_missing: deny}], limit: {algorithm: token_bucket, rate: 1/h}}]\n")
	if got := w.check(request("/", "192.0.2.1", "x-user", "a", "accept", "text/html, */*")); got != "0" {
		t.Fatalf("the first request of user a got %s", got)
	}
	for _, q := range []*authpb.CheckRequest{
		request("/", "192.0.2.1", "x-user", "a,b"),
		request("/", "192.0.2.1", "x-user", "b,a"),
		request("/", "192.0.2.1", "x-user", "b,c"),
		request("/", "192.0.2.1", "x-user", "b", "x_user", "a"),
		raw("/", "192.0.2.1", "x-user", "b", "X-User", "a"),
	} {
		if got := w.check(q); !strings.HasPrefix(got, "7 400 ") {
			t.Errorf("%v: a repeated header should be refused, got %s", q, got)
		}
	}
	if got := w.check(raw("/", "192.0.2.1", "x-user", "d,e")); got != "0" {
		t.Errorf("a comma in a single line: %s", got)
	}
}

// TestEachActionIsAnswered checks each action of rules.
func TestEachActionIsAnswered(t *testing.T) {
	w := newWorld(t, `rules:
  - {name: own, match: {path: /own}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}, when_limited: {status: 503, body: 'wait {wait} s', header: {X-Why: '{rule}'}}}
  - {name: room, match: {path: /room}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}, when_limited: {action: degrade, status: 302, header: {Location: 'https://example.com/wait'}}}
  - {name: other, match: {path: /other}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}, when_limited: {action: degrade, upstream: 'http://127.0.0.1:1'}}
  - {name: marked, match: {path: /marked}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}, when_limited: {action: mark}}
`)
	for _, x := range []struct{ path, want string }{
		{"/free", "0"},
		{"/own", "7 503 <Cache-Control:no-store <Content-Type:text/plain; charset=utf-8 <Retry-After:3600 <X-Content-Type-Options:nosniff <X-Why:own wait 3600 s"},
		{"/room", "7 302 <Location:https://example.com/wait "},
		{"/other", "0 Sluice-Degraded:other -Sluice-Marked"},
		{"/marked", "0 Sluice-Marked:marked"},
	} {
		q := request(x.path, "192.0.2.1", "sluice-marked", "forged")
		if got := w.check(q); got != "0 -Sluice-Marked" {
			t.Errorf("%s, the first time: %s", x.path, got)
		}
		if x.path == "/free" {
			continue
		}
		if got := w.check(q); got != x.want {
			t.Errorf("%s: %s; want %s", x.path, got, x.want)
		}
	}
}

// TestHeadersAndMetadata checks what clients and logs get besides the outcome.
func TestHeadersAndMetadata(t *testing.T) {
	w := newWorld(t, perClient)
	v, err := w.Check(t.Context(), request("/", "192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range v.GetOkResponse().GetResponseHeadersToAdd() {
		names = append(names, h.GetHeader().GetKey()+":"+h.GetHeader().GetValue())
		if h.GetAppendAction() != corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("the header %v does not replace the service's", h)
		}
	}
	if want := []string{`Ratelimit:"one";r=0;t=3600`, `Ratelimit-Policy:"one";q=1;w=3600`}; !slices.Equal(names, want) {
		t.Errorf("the headers are %q, want %q", names, want)
	}
	if v, err = w.Check(t.Context(), request("/", "192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	got := v.GetDynamicMetadata().AsMap()
	if fmt.Sprint(got) != "map[action:deny explanation:deny: rule one: limited, 0 of 1 remain, retry after 1h0m0s limit:one reason:limited retry_after_seconds:3600 rule:one]" &&
		(got["rule"] != "one" || got["reason"] != "limited" || got["action"] != "deny" || !strings.HasPrefix(fmt.Sprint(got["explanation"]), "deny: rule one")) {
		t.Errorf("the metadata are %v", got)
	}
	if strings.Contains(fmt.Sprint(v), "192.0.2.1") {
		t.Errorf("the answer has the key: %v", v)
	}
}

// TestDelayedRequestsAreAnsweredLater checks that a request that may go on later is answered later, and refused if that would be too late.
func TestDelayedRequestsAreAnsweredLater(t *testing.T) {
	w := newWorld(t, "rules: [{name: slow, key: [client_ip], limit: {algorithm: leaky_bucket, rate: 20/s, queue: 100}}]\n")
	began := time.Now()
	for range 3 {
		if got := w.check(request("/", "192.0.2.1")); got != "0" {
			t.Fatalf("a request within the queue got %s", got)
		}
	}
	if took := time.Since(began); took < 90*time.Millisecond {
		t.Errorf("three requests of 20 a second took %v", took)
	}
	w = newWorld(t, "rules: [{name: slow, key: [client_ip], limit: {algorithm: leaky_bucket, rate: 1/m, queue: 100}}]\n")
	w.check(request("/", "192.0.2.1"))
	ctx, cancel := context.WithTimeout(t.Context(), edgetest.Patience)
	defer cancel()
	v, err := w.Check(ctx, request("/", "192.0.2.1"))
	if err != nil || ctx.Err() != nil {
		t.Fatalf("the answer should come before the deadline: %v, %v", err, ctx.Err())
	}
	if got := shown(v); !strings.HasPrefix(got, "7 503 ") && !strings.HasPrefix(got, "8 429 ") {
		t.Errorf("a delay beyond the deadline got %s", got)
	}
	if n := w.gate.Waiting(); n != 0 {
		t.Errorf("%d requests wait", n)
	}
}

// TestCallsWithoutARequestGetNoDecision checks that a call that reports no request gets no decision.
func TestCallsWithoutARequestGetNoDecision(t *testing.T) {
	w := newWorld(t, perClient)
	both := request("/", "192.0.2.1", "a", "b")
	both.Attributes.Request.Http.HeaderMap = raw("/", "192.0.2.1", "a", "b").Attributes.Request.Http.HeaderMap
	sourceless := request("/", "192.0.2.1")
	sourceless.Attributes.Source = nil
	for _, q := range []*authpb.CheckRequest{
		{}, {Attributes: &authpb.AttributeContext{}}, sourceless, both, request("/", ""), request("/", "localhost"), request("/", "192.0.2.1:80"), request("/", "192.0.2.256"),
	} {
		if got := w.check(q); got != "InvalidArgument" {
			t.Errorf("%v reports no request, but got %s", q, got)
		}
	}
	if len(w.unusable) != 8 || len(w.actions) != 0 {
		t.Errorf("want 8 unusable calls and no decision, got %q, %v", w.unusable, w.actions)
	}
}
