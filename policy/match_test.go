package policy_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

func from(addr string) *policy.Attributes {
	return &policy.Attributes{ClientIP: netip.MustParseAddr(addr)}
}

// matches reports whether a rule with a match matches a request.
func matches(tb testing.TB, o policy.Options, m policy.Match, a *policy.Attributes) bool {
	tb.Helper()
	o.Rules = append(o.Rules, policy.Rule{Name: "r", Match: m, Key: []policy.Part{policy.Global()}, Limits: bucket()})
	return slices.ContainsFunc(mustPolicy(tb, o).LimitsFor(a), func(m policy.LimitResult) bool { return m.Rule.Name == "r" })
}

// A condition on cookies, queries or attributes holds for the values that it names.
func TestMatchValues(t *testing.T) {
	v := values{
		cookie:    map[string]string{"session": "s1", "Session": "other"},
		query:     map[string]string{"debug": "", "format": "json"},
		attribute: map[string]string{"service": "pay.v1.Pay"},
	}
	a := &policy.Attributes{Values: v}
	for _, c := range []struct {
		match policy.Match
		want  bool
	}{
		{policy.Match{Cookies: []policy.ValueMatch{{Name: "session"}}}, true},
		{policy.Match{Cookies: []policy.ValueMatch{{Name: "Session", OneOf: []string{"s1"}}}}, false}, // names of cookies are exact
		{policy.Match{Cookies: []policy.ValueMatch{{Name: "none", Absent: true}}}, true},
		{policy.Match{Queries: []policy.ValueMatch{{Name: "debug"}}}, true},
		{policy.Match{Queries: []policy.ValueMatch{{Name: "format", OneOf: []string{"xml", "json"}}}}, true},
		{policy.Match{Queries: []policy.ValueMatch{{Name: "format", OneOf: []string{"xml"}}}}, false},
		{policy.Match{Attributes: []policy.ValueMatch{{Name: "service", Prefixes: []string{"pay."}}}}, true},
		{policy.Match{Attributes: []policy.ValueMatch{{Name: "service", Absent: true}}}, false},
		{policy.Match{
			Cookies: []policy.ValueMatch{{Name: "session"}}, Queries: []policy.ValueMatch{{Name: "format", OneOf: []string{"json"}}},
			Attributes: []policy.ValueMatch{{Name: "none"}},
		}, false},
	} {
		if got := matches(t, policy.Options{}, c.match, a); got != c.want {
			t.Errorf("%+v matches: %v, want %v", c.match, got, c.want)
		}
	}
	// A value that an edge does not have is missing.
	nothing := &policy.Attributes{Values: plain{v}}
	if matches(t, policy.Options{}, policy.Match{Attributes: []policy.ValueMatch{{Name: "service"}}}, nothing) {
		t.Error("found an attribute of an edge without attributes")
	}
}

func TestMatchClientIPs(t *testing.T) {
	for _, c := range []struct {
		networks []netip.Prefix
		addr     string
		want     bool
	}{
		{prefixes("10.0.0.0/8"), "10.255.255.255", true},
		{prefixes("10.0.0.0/8"), "11.0.0.0", false},
		{prefixes("10.0.0.0/8"), "::ffff:10.1.2.3", true},
		{prefixes("::ffff:10.0.0.0/104"), "10.1.2.3", true},
		{prefixes("::ffff:10.0.0.0/104"), "11.1.2.3", false},
		{prefixes("10.1.2.3/8"), "10.9.9.9", true}, // the bits after the prefix are ignored
		{prefixes("0.0.0.0/0"), "203.0.113.7", true},
		{prefixes("0.0.0.0/0"), "2001:db8::1", false},
		{prefixes("::/0"), "203.0.113.7", false},
		{prefixes("::/0"), "2001:db8::1", true},
		{prefixes("2001:db8::/32", "192.0.2.1/32"), "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true},
		{prefixes("2001:db8::/32", "192.0.2.1/32"), "2001:db9::", false},
		{prefixes("2001:db8::/32", "192.0.2.1/32"), "192.0.2.1", true},
		{prefixes("2001:db8::8/125"), "2001:db8::f", true},
		{prefixes("2001:db8::8/125"), "2001:db8::10", false},
		{prefixes("fe80::/10"), "fe80::1%eth0", true},
		{prefixes("2001:db8::1/128"), "2001:db8::1", true},
	} {
		if got := matches(t, policy.Options{}, policy.Match{ClientIPs: c.networks}, from(c.addr)); got != c.want {
			t.Errorf("%v in %v: %v", c.addr, c.networks, got)
		}
	}
	if matches(t, policy.Options{}, policy.Match{ClientIPs: prefixes("0.0.0.0/0", "::/0")}, &policy.Attributes{}) {
		t.Error("a client without an address is in a network")
	}
}

// A set of many networks holds an address exactly if one network holds it.
func TestManyNetworks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	addr := func(six bool) netip.Addr {
		// Few bits are random, so that networks overlap and addresses hit.
		if six {
			b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
			b[7], b[8], b[15] = byte(r.IntN(8)), byte(r.IntN(4)), byte(r.IntN(16))
			return netip.AddrFrom16(b)
		}
		return netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(32)), byte(r.IntN(256))})
	}
	for round := range 20 {
		var networks []netip.Prefix
		for range 1 + r.IntN(60) {
			a := addr(r.IntN(2) == 0)
			bits := 14 + r.IntN(19)
			if a.Is6() {
				bits = []int{48, 60, 62, 64, 66, 72, 120, 126, 128}[r.IntN(9)]
			}
			networks = append(networks, netip.PrefixFrom(a, bits))
		}
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{
			Name: "r", Match: policy.Match{ClientIPs: networks}, Key: []policy.Part{policy.Global()}, Limits: bucket(),
		}}})
		for range 500 {
			a := addr(r.IntN(2) == 0)
			want := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
			if got := len(p.LimitsFor(&policy.Attributes{ClientIP: a})) == 1; got != want {
				t.Fatalf("round %d: %v in %v: %v", round, a, networks, got)
			}
		}
	}
}

// An exception holds for requests that it matches, and exceptions have exceptions.
func TestExceptionsHaveExceptions(t *testing.T) {
	m := policy.Match{
		Paths: []string{"/api/**"},
		Unless: []policy.Match{
			{Paths: []string{"/api/health", "/api/*/status"}},
			{Hosts: []string{"*.internal.example.com"}, Methods: []string{"GET"}},
			{ClientIPs: prefixes("10.0.0.0/8"), Unless: []policy.Match{{Methods: []string{"POST"}}}},
		},
	}
	ten := netip.MustParseAddr("10.1.1.1")
	for _, c := range []struct {
		a    policy.Attributes
		want bool
	}{
		{policy.Attributes{Path: "/api"}, true},
		{policy.Attributes{Path: "/other"}, false},
		{policy.Attributes{Path: "/api/he%61lth/"}, false},
		{policy.Attributes{Path: "/api//health"}, true}, // some services do not merge slashes
		{policy.Attributes{Path: "//api/health"}, true},
		{policy.Attributes{Path: "/api%2f/health"}, true},
		{policy.Attributes{Path: "/api/./health"}, true}, // some services treat the dot as a name
		{policy.Attributes{Path: "/api/v1/status"}, false},
		{policy.Attributes{Path: "/api/v1/v2/status"}, true},
		{policy.Attributes{Path: "/api", Host: "a.internal.example.com", Method: "GET"}, false},
		{policy.Attributes{Path: "/api", Host: "a.internal.example.com", Method: "PUT"}, true},
		{policy.Attributes{Path: "/api", Host: "internal.example.com", Method: "GET"}, true},
		{policy.Attributes{Path: "/api", ClientIP: ten}, false},
		{policy.Attributes{Path: "/api", ClientIP: ten, Method: "POST"}, true}, // an exception can have exceptions
	} {
		if got := matches(t, policy.Options{}, m, &c.a); got != c.want {
			t.Errorf("the rule with exceptions matches %+v: %v, want %v", c.a, got, c.want)
		}
	}
}

// Conditions outside the index match exactly as the index does.
func TestUnlessMatchesAsTheIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	for range 3000 {
		pattern, path := "", ""
		for range r.IntN(4) {
			pattern += "/" + pick("a", "b", "*", "**")
		}
		for range r.IntN(4) {
			path += "/" + pick("a", "b", "c")
		}
		m := policy.Match{}
		if pattern != "" {
			m.Paths = []string{pattern}
		}
		if r.IntN(2) == 0 {
			m.Hosts = []string{pick("x.org", "*.x.org", "*.org")}
		}
		a := &policy.Attributes{Path: path, Host: pick("x.org", "a.x.org", "org", "b.a.x.org", "y.com", "")}
		if m.Paths == nil && m.Hosts == nil {
			continue
		}
		matched, unless := matches(t, policy.Options{}, m, a), matches(t, policy.Options{}, policy.Match{Unless: []policy.Match{m}}, a)
		if matched == unless {
			t.Fatalf("%+v of %q %q: %v, and %v as an exception", m, a.Host, a.Path, matched, !unless)
		}
	}
}

// A request has the first class that matches it.
func TestFirstMatchingClassCounts(t *testing.T) {
	o := policy.Options{Default: policy.Deny, Classes: []policy.Class{
		{Name: "probe", Match: policy.Match{Paths: []string{"/healthz"}}, Bypass: true},
		{Name: "critical", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{"gold"}}}}},
		{Name: "rest", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan"}}}},
	}}
	plan := func(p string) policy.Values { return values{header: map[string]string{"X-Plan": p}} }
	o.Rules = []policy.Rule{
		{Name: "all", Key: []policy.Part{policy.Global()}, Limits: bucket()},
		{Name: "best", Match: policy.Match{Classes: []string{"critical", "probe"}}, Key: []policy.Part{policy.Global()}, Limits: bucket()},
		{Name: "others", Match: policy.Match{Unless: []policy.Match{{Classes: []string{"critical"}}}}, Key: []policy.Part{policy.Global()}, Limits: bucket()},
	}
	p := mustPolicy(t, o)
	for _, c := range []struct {
		a       policy.Attributes
		class   string
		matched string
	}{
		{policy.Attributes{Path: "/healthz/", Values: plan("gold")}, "probe", ""},
		{policy.Attributes{Path: "/", Values: plan("gold")}, "critical", "all best "},
		{policy.Attributes{Path: "/", Values: plan("free")}, "rest", "all others "},
		{policy.Attributes{Path: "/"}, "", "all others "},
	} {
		v := p.Decide(t.Context(), &stub{}, &c.a)
		var matched string
		for _, m := range v.Results {
			matched += m.Rule.Name + " "
		}
		if v.Class != c.class || v.Bypass != (c.class == "probe") || !v.Allowed() || matched != c.matched {
			t.Errorf("%+v is of class %q, and matches %q: %s", c.a, v.Class, matched, v.String())
		}
	}
}

func TestRulesMatchPressure(t *testing.T) {
	pressure := map[string]float64{"all": 0.89}
	o := policy.Options{
		Rules:    []policy.Rule{{Name: "all", Key: []policy.Part{policy.Global()}, Limits: bucket()}},
		Pressure: func(rule string) float64 { return pressure[rule] },
	}
	m := policy.Match{Pressure: 0.9, PressureOf: "all"}
	if matches(t, o, m, &policy.Attributes{}) {
		t.Error("matched at a pressure of 0.89")
	}
	pressure["all"] = 0.9
	if !matches(t, o, m, &policy.Attributes{}) {
		t.Error("not matched at a pressure of 0.9")
	}
	o.Pressure = nil
	if matches(t, o, m, &policy.Attributes{}) {
		t.Error("matched without a pressure function")
	}
}

// A search by literal paths or values looks only at rules that can match.
func BenchmarkMatch(b *testing.B) {
	const n = 10_000
	for _, kind := range []struct {
		name  string
		match func(i int) policy.Match
		a     policy.Attributes
	}{
		{"literal paths", func(i int) policy.Match {
			return policy.Match{Paths: []string{fmt.Sprintf("/v1/tenants/t%d/items", i)}}
		}, policy.Attributes{Path: "/v1/tenants/t77/items"}},
		{"hosts", func(i int) policy.Match { return policy.Match{Hosts: []string{fmt.Sprintf("t%d.example.com", i)}} }, policy.Attributes{Host: "t77.example.com"}},
		{"header values", func(i int) policy.Match {
			return policy.Match{Headers: []policy.ValueMatch{{Name: "X-Tenant", OneOf: []string{fmt.Sprint("t", i)}}}}
		}, policy.Attributes{Values: values{header: map[string]string{"X-Tenant": "t77"}}}},
		{"query values", func(i int) policy.Match {
			return policy.Match{Queries: []policy.ValueMatch{{Name: "tenant", OneOf: []string{fmt.Sprint("t", i)}}}}
		}, policy.Attributes{Values: values{query: map[string]string{"tenant": "t77"}}}},
	} {
		for _, n := range []int{100, n} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				var rules []policy.Rule
				for i := range n {
					rules = append(rules, policy.Rule{Name: fmt.Sprint("r", i), Match: kind.match(i), Key: []policy.Part{policy.Global()}, Limits: bucket()})
				}
				p := mustPolicy(b, policy.Options{Rules: rules})
				store := &stub{}
				b.ReportAllocs()
				for b.Loop() {
					if v := p.Decide(b.Context(), store, &kind.a); len(v.Results) != 1 {
						b.Fatalf("want one result, got %s", v.String())
					}
				}
			})
		}
	}
}

// BenchmarkNetworks finds an address among many networks.
func BenchmarkNetworks(b *testing.B) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rule := policy.Rule{Name: "r", Key: []policy.Part{policy.Global()}, Limits: bucket()}
			for i := range n {
				rule.DenyIPs = append(rule.DenyIPs, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i), 0}), 25))
			}
			p, store := mustPolicy(b, policy.Options{Rules: []policy.Rule{rule}}), &stub{}
			i := uint32(0)
			for b.Loop() {
				i += 0x9e3779b1
				a := policy.Attributes{ClientIP: netip.AddrFrom4([4]byte{200, byte(i >> 24), byte(i >> 16), 200})}
				if v := p.Decide(b.Context(), store, &a); v.Reason == sluice.ReasonListed {
					b.Fatalf("an address beside the networks is listed: %s", v.String())
				}
			}
		})
	}
}

// DecideRule calls no store for a class that bypasses the rules.
func TestDecideRuleBypass(t *testing.T) {
	o := policy.Options{
		Rules:   []policy.Rule{global("r", 1, policy.Deny)},
		Classes: []policy.Class{{Name: "probe", Match: policy.Match{Paths: []string{"/healthz"}}, Bypass: true}},
	}
	s := &stub{}
	v, err := mustPolicy(t, o).DecideRule(t.Context(), s, policy.RuleRequest{Rule: "r", Class: "probe"})
	if err != nil || !v.Allowed() || !v.Bypass || v.Class != "probe" || s.single > 0 {
		t.Errorf("%v, %d requests: %s", err, s.single, v.String())
	}
}

func TestPolicyInWords(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"allow": policy.Allow, "mark": policy.Mark, "degrade": policy.Degrade, "deny": policy.Deny,
		"candidate": policy.RoleCandidate, "advisory": policy.RoleAdvisory, "response_header": policy.CostResponseHeader,
		"skip": policy.MissingSkip, "claim": policy.FromClaim,
	} {
		if v.String() != want {
			t.Errorf("%#v is written %q", v, v)
		}
	}
	for _, v := range []fmt.Stringer{policy.Action(99), policy.Role(99), policy.List(99), policy.CostSource(99)} {
		if v.String() != "unknown" {
			t.Errorf("%#v is written %q", v, v)
		}
	}
	if policy.ListAllow.String() != "allow" || policy.ListDeny.String() != "deny" || sluice.ReasonListed.String() != "listed" {
		t.Error("lists have other texts")
	}
}
