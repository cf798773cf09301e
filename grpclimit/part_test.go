package grpclimit_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// once returns a connection to a server where each key has one call a day.
func once(t *testing.T, parts ...policy.Part) *grpc.ClientConn {
	t.Helper()
	return serveTCP(t, &service{}, limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}, parts...), grpclimit.ServerOptions{}))
}

// sameKey reports whether calls with two contexts count for one key, and fails the test if the first one
// is refused.
func sameKey(t *testing.T, conn *grpc.ClientConn, two ...context.Context) bool {
	t.Helper()
	want(t, call(two[0], conn), codes.OK)
	return call(two[1], conn) != nil
}

func TestKeysByMetadata(t *testing.T) {
	key := grpclimit.Metadata("X-User")
	if conn := once(t, key); sameKey(t, conn, with("x-user", "a"), with("x-user", "b")) {
		t.Error("two users have one key")
	}
	if conn := once(t, key); !sameKey(t, conn, with("x-user", "a"), with("X-USER", "a")) {
		t.Error("letter case of a metadata key makes a key")
	}
	if conn := once(t, key); !sameKey(t, conn, with("x-other", "a"), with("x-user", "")) {
		t.Error("an empty value is not missing")
	}
	// Several values are refused, unless one of them is chosen.
	twice := with("x-user", "a", "x-user", "b")
	want(t, call(twice, once(t, key)), codes.InvalidArgument)
	for r, first := range map[policy.Repeated]string{policy.RepeatedFirst: "a", policy.RepeatedLast: "b"} {
		if conn := once(t, key.IfRepeated(r)); !sameKey(t, conn, twice, with("x-user", first)) {
			t.Errorf("%v does not count by %s", r, first)
		}
	}
	if conn := once(t, key.IfRepeated(policy.RepeatedShared)); !sameKey(t, conn, twice, t.Context()) {
		t.Error("calls with several values have a budget of their own")
	}
	want(t, call(t.Context(), once(t, grpclimit.Metadata("x-user").IfMissing(policy.MissingDeny))), codes.InvalidArgument)
	conn := once(t, grpclimit.Metadata("x-user").IfMissing(policy.MissingSkip))
	if sameKey(t, conn, t.Context(), t.Context()) {
		t.Error("calls without the key are counted")
	}
}

// Binary metadata is one key for all its spellings, and different bytes are different keys.
func TestKeysByBinaryMetadata(t *testing.T) {
	key := grpclimit.Metadata("x-id-bin")
	if conn := once(t, key); sameKey(t, conn, with("x-id-bin", "\x00\xff"), with("x-id-bin", "\x00\xfe")) {
		t.Error("two ids have one key")
	}
	if conn := once(t, key); !sameKey(t, conn, with("x-id-bin", "\x00\xff"), with("x-id-bin", "\x00\xff")) {
		t.Error("an id has two keys")
	}
	want(t, call(with("x-id-bin", "a", "x-id-bin", "b"), once(t, key)), codes.InvalidArgument)
}

// A token has one key, however its scheme is written.
func TestKeysByAuthorization(t *testing.T) {
	conn := once(t, grpclimit.Metadata("authorization").IfMissing(policy.MissingDeny))
	if !sameKey(t, conn, with("authorization", "Bearer abc"), with("authorization", "bearer  abc")) {
		t.Error("spaces in a header escape the limit")
	}
}

func TestKeysByMethodAndMessage(t *testing.T) {
	conn := once(t, grpclimit.Method())
	want(t, call(t.Context(), conn), codes.OK)
	_, err := exchange(open(t.Context(), conn), 0)
	if err == nil || err.Error() != "EOF" {
		t.Errorf("another method: %v", err)
	}
	want(t, call(t.Context(), conn), codes.ResourceExhausted)

	conn = once(t, grpclimit.Service())
	want(t, call(t.Context(), conn), codes.OK)
	_, err = exchange(open(t.Context(), conn), 0)
	want(t, err, codes.ResourceExhausted)

	conn = once(t, grpclimit.Function("order", func(c *grpclimit.Call) (string, bool) {
		m, ok := c.Message.(*text)
		return m.GetValue(), ok
	}), policy.Host().IfMissing(policy.MissingDeny))
	for _, order := range []string{"1", "2"} {
		for _, code := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			want(t, conn.Invoke(t.Context(), create, wrapperspb.String(order), new(text)), code)
		}
	}
}

// The address is the peer's, unless trusted proxies report another one.
func TestKeysByAddress(t *testing.T) {
	behind := func(ip *httplimit.ClientIP) *grpc.ClientConn {
		return serveTCP(t, &service{}, limited(t, byAddress(ip), grpclimit.ServerOptions{}))
	}
	if conn := behind(nil); !sameKey(t, conn, with("x-forwarded-for", "203.0.113.1"), with("x-forwarded-for", "203.0.113.2")) {
		t.Error("a client chooses its address")
	}
	other := must(httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: must(httplimit.ParseProxies("192.0.2.0/24"))}))
	if conn := behind(other); !sameKey(t, conn, with("x-forwarded-for", "203.0.113.1"), with("x-forwarded-for", "203.0.113.2")) {
		t.Error("a peer that is not a proxy chooses its address")
	}
	proxy := must(httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: must(httplimit.ParseProxies("127.0.0.0/8", "10.0.0.0/8"))}))
	for _, c := range []struct {
		a, b []string
		same bool
	}{
		{[]string{"203.0.113.1"}, []string{"203.0.113.2"}, false},
		{[]string{"6.6.6.6, 203.0.113.1"}, []string{"7.7.7.7, 203.0.113.1, 10.0.0.9"}, true},
		{[]string{"6.6.6.6", "203.0.113.1"}, []string{"203.0.113.1"}, true},
		{[]string{"2001:db8::1"}, []string{"2001:db8:0:0:ffff::2"}, true},
		{[]string{"2001:db8::1"}, []string{"2001:db8:0:1::1"}, false},
		{[]string{"::ffff:203.0.113.1"}, []string{"203.0.113.1:4711"}, true},
	} {
		ctx := func(lines []string) context.Context {
			var pairs []string
			for _, line := range lines {
				pairs = append(pairs, "x-forwarded-for", line)
			}
			return with(pairs...)
		}
		if sameKey(t, behind(proxy), ctx(c.a), ctx(c.b)) != c.same {
			t.Errorf("%q and %q: one key is %v", c.a, c.b, !c.same)
		}
	}
	want(t, call(with("x-forwarded-for", "nonsense"), behind(proxy)), codes.InvalidArgument)
	// A connection in memory has no address.
	want(t, call(t.Context(), serve(t, &service{}, limited(t, byAddress(proxy), grpclimit.ServerOptions{}))), codes.InvalidArgument)
}

// Rules find addresses, metadata, claims, attributes and the authority.
func TestRulesFindValues(t *testing.T) {
	var got policy.Attributes
	p := must(policy.New(policy.Options{
		Classes: []policy.Class{{Name: "paying", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "x-plan", OneOf: []string{"gold"}}}}, Bypass: true}},
		Rules: []policy.Rule{{
			Name:   "all",
			Match:  policy.Match{Hosts: []string{"127.0.0.1"}, ClientIPs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Methods: []string{"POST"}, Paths: []string{"/shop.v1.Orders/{method}"}, If: []policy.Matcher{matcher{&got}}},
			Key:    []policy.Part{policy.Template("{claim:sub}/{attribute:zone}/{param:method}"), policy.Host()},
			Limits: []*sluice.Limit{perDay(1)},
		}},
	}))
	o := grpclimit.PolicyOptions{
		Policy: p, Store: must(memory.New(memory.Options{})),
		Attribute: func(c *grpclimit.Call, name string) (string, bool) { return name + c.Method, true },
	}
	conn := serveTCP(t, &service{}, limited(t, must(grpclimit.NewPolicyDecider(o)), grpclimit.ServerOptions{}))
	// {"alg":"none"} . {"sub":"alice"} and {"sub":"bob"}
	alice, bob := "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ."
	want(t, call(with("authorization", alice), conn), codes.OK)
	want(t, call(with("authorization", alice), conn), codes.ResourceExhausted)
	want(t, call(with("authorization", bob), conn), codes.OK)
	want(t, call(with("authorization", alice, "authorization", bob), conn), codes.InvalidArgument)
	want(t, call(with("authorization", alice, "x-plan", "gold"), conn), codes.OK)
	if got.Path != create || got.Method != http.MethodPost || got.ClientIP != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("the rules got %+v", got)
	}
	if host, ok := got.Values.Header("Host"); !ok || !strings.HasPrefix(host, "127.0.0.1:") {
		t.Errorf("the host is %q", host)
	}
	if _, ok := got.Values.Cookie("a"); ok {
		t.Error("a call has a cookie")
	}
	if _, ok := got.Values.Query("a"); ok {
		t.Error("a call has a query")
	}

	o.Claim = func(*grpclimit.Call, string) (string, bool) { return "carol", true }
	o.Store = must(memory.New(memory.Options{}))
	conn = serveTCP(t, &service{}, limited(t, must(grpclimit.NewPolicyDecider(o)), grpclimit.ServerOptions{}))
	if !sameKey(t, conn, with("authorization", alice), with("authorization", bob)) {
		t.Error("the program's claim is not read")
	}
}

// matcher keeps attributes that it gets.
type matcher struct{ got *policy.Attributes }

func (m matcher) Matches(a *policy.Attributes) bool {
	*m.got = *a
	return true
}

// A call is decided by the limits of its plan, and what it has used stays used.
func TestLimitsOfPlans(t *testing.T) {
	plan := func(n int64) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("api", sluice.FixedWindow{Rate: sluice.PerDay(n)})}
	}
	free, paid := plan(1), plan(3)
	conn := serve(t, &service{}, limited(t, must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Limits: free, Key: []policy.Part{grpclimit.Metadata("x-user")},
		LimitsFor: func(c *grpclimit.Call) []*sluice.Limit {
			if len(c.Metadata("x-paid")) > 0 {
				return paid
			}
			return nil
		},
	})), grpclimit.ServerOptions{}))
	want(t, call(with("x-user", "a"), conn), codes.OK)
	want(t, call(with("x-user", "a"), conn), codes.ResourceExhausted)
	for _, code := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		want(t, call(with("x-user", "a", "x-paid", "yes"), conn), code)
	}
}

// A part that a key cannot have is an error, which names the reason.
func TestPartErrorsNameTheReason(t *testing.T) {
	for text, part := range map[string]policy.Part{
		"has no name or no function": grpclimit.Function("a", nil),
		`"function:" has no name or`: grpclimit.Function("", func(*grpclimit.Call) (string, bool) { return "", false }),
		`"header:" has no name`:      grpclimit.Metadata(""),
		`"constant:" has no name`:    policy.Constant(""),
		"has no source":              {},
		"has an unknown OnMissing":   policy.ClientIP().IfMissing(9),
		"is not a name of a header":  grpclimit.Metadata("a b"),
		"a choice for several value": policy.ClientIP().IfRepeated(policy.RepeatedFirst),
		"is a part for rules":        policy.Method(),
	} {
		_, err := grpclimit.NewKeyDecider(grpclimit.KeyOptions{Store: failing{}, Limits: []*sluice.Limit{perDay(1)}, Key: []policy.Part{part}})
		if err == nil || !strings.HasPrefix(err.Error(), "grpclimit: KeyOptions") || !strings.Contains(err.Error(), text) {
			t.Errorf("want an error with %q, got %v", text, err)
		}
	}
}

// A rule applies if one of several values fulfills its condition, and an exception needs all of them.
func TestConditionsOnRepeatedMetadata(t *testing.T) {
	plan := func(text string) []policy.ValueMatch {
		return []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{text}}}
	}
	conn := serve(t, &service{}, limited(t, ruled(
		policy.Rule{Name: "free", Match: policy.Match{Headers: plan("free")}, Always: true},
		policy.Rule{Name: "all", Match: policy.Match{Unless: []policy.Match{{Headers: plan("gold")}}}, Always: true, WhenLimited: policy.LimitedAction{Status: 403}},
	), grpclimit.ServerOptions{}))
	want(t, call(with("x-plan", "gold"), conn), codes.OK)
	want(t, call(with("x-plan", "gold", "x-plan", "free"), conn), codes.ResourceExhausted)
	want(t, call(with("x-plan", "gold", "x-plan", "silver"), conn), codes.PermissionDenied)
	want(t, call(t.Context(), conn), codes.PermissionDenied)
}

// A client at a Unix socket has no address, whatever name it gives its own end.
func TestKeysOfPeersAtASocket(t *testing.T) {
	t.Chdir(t.TempDir()) // names are relative to it
	named := func(name string) grpc.DialOption {
		return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.UnixAddr{Name: name, Net: "unix"}}
			return d.DialContext(ctx, "unix", "server")
		})
	}
	for name, trust := range map[string]bool{"10.0.0.1:80": false, "10.0.0.2:80": true} {
		ip := must(httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: must(httplimit.ParseProxies("10.0.0.0/8")), TrustUnix: trust}))
		server := limited(t, byAddress(ip), grpclimit.ServerOptions{})
		l, err := net.Listen("unix", "server")
		if err != nil {
			t.Fatal(err)
		}
		conn := serveOn(t, l, "passthrough:///server", &service{}, server, named(name))
		want(t, call(t.Context(), conn), codes.InvalidArgument)
		code := codes.InvalidArgument
		if trust {
			code = codes.OK
		}
		want(t, call(with("x-forwarded-for", "192.0.2.1"), conn), code)
		if err := os.Remove("server"); err != nil {
			t.Fatal(err)
		}
	}
}
