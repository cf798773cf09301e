package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

func bucket() []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100)})}
}

func mustPolicy(tb testing.TB, o policy.Options) *policy.Policy {
	tb.Helper()
	p, err := policy.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// keyOf returns the key of a request under a rule with these parts, and whether the rule matches.
func keyOf(tb testing.TB, a *policy.Attributes, paths []string, parts ...policy.Part) (sluice.Key, bool) {
	tb.Helper()
	p := mustPolicy(tb, policy.Options{Rules: []policy.Rule{{
		Name: "r", Match: policy.Match{Paths: paths}, Key: parts, Limits: bucket(),
	}}})
	results := p.LimitsFor(a)
	if len(results) == 0 {
		return sluice.Key{}, false
	}
	return results[0].Request.Key, true
}

// Each part of a key has the value of its source, in the canonical spelling.
func TestKeyParts(t *testing.T) {
	a := &policy.Attributes{
		Method: "GET", Host: "API.example.com:80", Path: "/users//4%32/posts", ClientIP: netip.MustParseAddr("203.0.113.7"),
		Values: values{
			header:    map[string]string{"X-User": "alice", "X-Empty": ""},
			cookie:    map[string]string{"session": "s1"},
			query:     map[string]string{"q": "a:b"},
			claim:     map[string]string{"sub": "u1"},
			attribute: map[string]string{"service": "pay"},
		},
	}
	for _, c := range []struct {
		parts []policy.Part
		want  sluice.Key
	}{
		{[]policy.Part{policy.ClientIP()}, sluice.StringKey("203.0.113.7")},
		{[]policy.Part{policy.Header("x-user")}, sluice.StringKey("alice")},
		{[]policy.Part{policy.Cookie("session")}, sluice.StringKey("s1")},
		{[]policy.Part{policy.Query("q")}, sluice.StringKey("a:b")},
		{[]policy.Part{policy.Claim("sub")}, sluice.StringKey("u1")},
		{[]policy.Part{policy.Attribute("service")}, sluice.StringKey("pay")},
		{[]policy.Part{policy.Template("{client_ip}/{header:X-User}")}, sluice.NewKey("203.0.113.7", "alice")},
		{[]policy.Part{policy.Method(), policy.Template("{param:id}.{claim:sub}"), policy.Host()}, sluice.NewKey("GET", "42", "u1", "api.example.com")},
		{[]policy.Part{policy.Template("user={header:x-user}")}, sluice.StringKey("alice")},
		{[]policy.Part{policy.Template("{claim:none} {client_ip}")}, sluice.NewKey("", "203.0.113.7", "missing 1")},
		{[]policy.Part{policy.Path()}, sluice.StringKey("/users/42/posts")},
		{[]policy.Part{policy.Param("id")}, sluice.StringKey("42")},
		{[]policy.Part{policy.Route()}, sluice.StringKey("/users/{id}/**")},
		{[]policy.Part{policy.Method()}, sluice.StringKey("GET")},
		{[]policy.Part{policy.Host()}, sluice.StringKey("api.example.com")},
		{[]policy.Part{policy.Global()}, sluice.StringKey("global")},
		{[]policy.Part{policy.Constant("eu")}, sluice.StringKey("eu")},
		{[]policy.Part{policy.ClientIP(), policy.Header("X-User")}, sluice.NewKey("203.0.113.7", "alice")},
		{[]policy.Part{policy.Header("X-User"), policy.ClientIP(), policy.Path()}, sluice.NewKey("alice", "203.0.113.7", "/users/42/posts")},
		// An extra part lists the missing parts.
		{[]policy.Part{policy.Header("X-None")}, sluice.NewKey("", "missing 1")},
		{[]policy.Part{policy.Header("X-Empty")}, sluice.NewKey("", "missing 1")},
		{[]policy.Part{policy.ClientIP(), policy.Cookie("none"), policy.Query("none")}, sluice.NewKey("203.0.113.7", "", "", "missing 2 3")},
	} {
		if got, ok := keyOf(t, a, []string{"/users/{id}/**"}, c.parts...); !ok || got != c.want {
			t.Errorf("%v: %q (%d parts), want %q", c.parts, got.Parts(), got.Len(), c.want.Parts())
		}
	}
	// A request without any attributes.
	nothing := &policy.Attributes{}
	for _, part := range []policy.Part{policy.ClientIP(), policy.Header("X"), policy.Cookie("x"), policy.Query("x"), policy.Method(), policy.Host()} {
		if got, _ := keyOf(t, nothing, nil, part); got != sluice.NewKey("", "missing 1") {
			t.Errorf("%v of an empty request is %q, want it marked as missing", part, got.Parts())
		}
	}
}

// All spellings of an address have the same key, and all addresses of a /64 too. Two
// IPv4 addresses have two keys.
func TestKeyOfAddresses(t *testing.T) {
	key := func(addr string, part policy.Part) sluice.Key {
		k, _ := keyOf(t, &policy.Attributes{ClientIP: netip.MustParseAddr(addr)}, nil, part)
		return k
	}
	ip := policy.ClientIP()
	for _, c := range []struct {
		a, b string
		part policy.Part
		same bool
	}{
		{"192.0.2.1", "::ffff:192.0.2.1", ip, true},
		{"192.0.2.1", "::ffff:c000:201", ip, true},
		{"192.0.2.1", "192.0.2.2", ip, false},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", ip, false},
		{"2001:db8::1", "2001:0db8:0:0:ffff::2", ip, true},
		{"2001:db8::1", "2001:db8:0:1::1", ip, false},
		{"fe80::1%eth0", "fe80::1%eth1", ip, true},
		{"2001:db8::1", "2001:db8:0:1::1", policy.Part{Source: source.ClientIP, IPv6Prefix: 48}, true},
		{"2001:db8::1", "2001:db8::2", policy.Part{Source: source.ClientIP, IPv6Prefix: 128}, false},
		{"192.0.2.1", "192.0.2.2", policy.Part{Source: source.ClientIP, IPv6Prefix: 1}, false},
	} {
		if a, b := key(c.a, c.part), key(c.b, c.part); (a == b) != c.same {
			t.Errorf("%s is %q, %s is %q", c.a, a.Parts(), c.b, b.Parts())
		}
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{ip}, Limits: bucket()}}})
	keys := map[sluice.Key]bool{}
	a := netip.MustParseAddr("2001:db8:1:2::").As16()
	for i := range 1 << 16 {
		a[8], a[15] = byte(i>>8), byte(i)
		keys[p.LimitsFor(&policy.Attributes{ClientIP: netip.AddrFrom16(a)})[0].Request.Key] = true
	}
	if len(keys) != 1 {
		t.Errorf("2^16 addresses of one /64 make %d keys", len(keys))
	}
}

// Different values never make the same key, whatever they hold, even if some
// are missing.
func TestKeysOfRulesAreInjective(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	letters := ":_/{}\x00|a\x01missing 12"
	draw := func() string {
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		if r.IntN(20) == 0 {
			b.WriteString("missing 1")
		}
		return b.String()
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
		{Name: "one", Key: []policy.Part{policy.Header("A")}, Limits: bucket()},
		{Name: "three", Key: []policy.Part{policy.Header("A"), policy.Header("B"), policy.Header("C")}, Limits: bucket()},
	}})
	seen := map[string]map[sluice.Key]string{"one": {}, "three": {}}
	for range soak.Times(t, 20_000) {
		v := map[string]string{}
		for _, name := range []string{"A", "B", "C"} {
			if r.IntN(4) > 0 {
				v[name] = draw()
			}
		}
		for _, m := range p.LimitsFor(&policy.Attributes{Values: values{header: v}}) {
			// An empty value counts as missing.
			id := fmt.Sprintf("%q", v["A"])
			if m.Rule.Name == "three" {
				id = fmt.Sprintf("%q %q %q", v["A"], v["B"], v["C"])
			}
			if other, ok := seen[m.Rule.Name][m.Request.Key]; ok && other != id {
				t.Fatalf("%s: %s and %s have the same key %q", m.Rule.Name, id, other, m.Request.Key.Text())
			}
			seen[m.Rule.Name][m.Request.Key] = id
		}
	}
}

// A request without a part of the key shares a budget, skips the rule or is denied.
func TestMissingPartsShareSkipOrDeny(t *testing.T) {
	for _, c := range []struct {
		missing policy.Missing
		shadow  bool
		action  policy.Action
		reason  sluice.Reason
		decided int
	}{
		{missing: policy.MissingShared, action: policy.Allow, decided: 1},
		{missing: policy.MissingSkip, action: policy.Deny, reason: sluice.ReasonNoRule},
		{missing: policy.MissingDeny, action: policy.Deny, reason: sluice.ReasonMissingKey},
		{missing: policy.MissingShared, shadow: true, action: policy.Allow, decided: 1},
		{missing: policy.MissingSkip, shadow: true, action: policy.Deny, reason: sluice.ReasonNoRule},
		{missing: policy.MissingDeny, shadow: true, action: policy.Allow},
	} {
		p := mustPolicy(t, policy.Options{Default: policy.Deny, Rules: []policy.Rule{{
			Name: "r", Key: []policy.Part{policy.Global(), policy.Header("X-Key").IfMissing(c.missing)}, Limits: bucket(), Shadow: c.shadow,
		}}})
		s := &stub{keep: true}
		v := p.Decide(t.Context(), s, &policy.Attributes{})
		if v.Action != c.action || v.Reason != c.reason || len(s.requests) != c.decided {
			t.Errorf("%v, shadow %v: %v %v with %d requests", c.missing, c.shadow, v.Action, v.Reason, len(s.requests))
		}
		if c.missing == policy.MissingDeny && !c.shadow && (v.Missing == nil || v.Missing.String() != "header:X-Key" || v.Rule.Name != "r") {
			t.Errorf("the verdict does not name the missing part: %s", v.String())
		}
	}
}

// A part is read from its text and written as the same text.
func TestParsePart(t *testing.T) {
	for _, text := range []string{
		"client_ip", "header:X-User", "cookie:session", "query:q", "path", "param:id", "route", "method", "host", "global", "constant:eu", "constant:a:b",
		"claim:sub", "claim:https://example.com/tenant", "attribute:service", "template:{client_ip}/{header:X}",
	} {
		p, err := policy.ParsePart(text)
		if err != nil || p.String() != text {
			t.Errorf("ParsePart(%q) = %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "ip", "header", "header:", "path:x", "global:x", "Header:X", "client_ip ", "claim", "claim:", "attribute:", "template:"} {
		if p, err := policy.ParsePart(text); err == nil {
			t.Errorf("ParsePart(%q) = %v", text, p)
		}
	}
}

// DecideRule uses the same key as a request with these values.
func TestDecideRuleHasTheKeyOfRequests(t *testing.T) {
	parts := []policy.Part{
		policy.ClientIP(), policy.Global(), policy.Header("X-User"), policy.Path(), policy.Param("id"), policy.Route(), policy.Method(), policy.Host(),
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{
		Name: "r", Match: policy.Match{Paths: []string{"/users/{id}"}}, Key: parts, Limits: bucket(),
	}}})
	s := &stub{keep: true}
	p.Decide(t.Context(), s, &policy.Attributes{
		Method: "GET", Host: "example.com:1", Path: "//users/a%20b", ClientIP: netip.MustParseAddr("2001:db8::5"),
		Values: values{header: map[string]string{"X-User": "alice"}},
	})
	for _, key := range [][]string{
		{"2001:db8::9", "alice", "/users/./a%20b", "a b", "/users/{id}", "GET", "Example.com"},
		{"2001:db8::/64", "alice", "/users/a b/", "a%20b", "/users/{id}", "GET", "example.com."},
	} {
		if _, err := p.DecideRule(t.Context(), s, policy.RuleRequest{Rule: "r", Key: key, Cost: 3, Peek: true}); err != nil {
			t.Fatal(err)
		}
		if err := p.Reset(t.Context(), s, "r", key...); err != nil {
			t.Fatal(err)
		}
		last := s.requests[len(s.requests)-1]
		if last.Key != s.requests[0].Key || s.reset[len(s.reset)-1] != s.requests[0].Key {
			t.Errorf("the keys are %q, %q and %q", s.requests[0].Key.Parts(), last.Key.Parts(), s.reset[len(s.reset)-1].Parts())
		}
		if last.Cost != 3 || !last.Peek {
			t.Errorf("request %+v", last)
		}
	}
}

// DecideRule reads a slash in a segment, a segment that no path has, a made-up method and a host as requests have them.
func TestDecideRuleReadsValuesAsRequestsHaveThem(t *testing.T) {
	rules := named("id", "method", "host")
	rules[0].Match.Paths = []string{"/users/{id}"}
	for i, part := range []policy.Part{policy.Param("id"), policy.Method(), policy.Host()} {
		rules[i].Key = []policy.Part{part.IfMissing(policy.MissingDeny)}
	}
	p := mustPolicy(t, policy.Options{Rules: rules})
	s := &stub{keep: true}
	p.Decide(t.Context(), s, &policy.Attributes{Method: "MADE-UP", Host: "a.example", Path: "/users/a%2Fb"})
	want := slices.Clone(s.requests)
	for i, key := range []string{"a/b", "other", "a.example."} {
		if _, err := p.DecideRule(t.Context(), s, policy.RuleRequest{Rule: rules[i].Name, Key: []string{key}}); err != nil {
			t.Fatal(err)
		}
		if got := s.requests[len(s.requests)-1].Key; got != want[i].Key {
			t.Errorf("%q is the key %q, and a request has %q", key, got.Parts(), want[i].Key.Parts())
		}
	}
	for _, c := range []policy.RuleRequest{{Rule: "id", Key: []string{"."}}, {Rule: "id", Key: []string{".."}}, {Rule: "host", Key: []string{""}}} {
		if v, err := p.DecideRule(t.Context(), s, c); err != nil || v.Reason != sluice.ReasonMissingKey {
			t.Errorf("%+v: %s, %v; want a denial for the missing part", c, v.String(), err)
		}
	}
}

func TestDecideRuleMistakes(t *testing.T) {
	p := mustPolicy(t, policy.Options{Default: policy.Deny, Rules: []policy.Rule{
		{Name: "ip", Key: []policy.Part{policy.ClientIP()}, Limits: bucket()},
		{Name: "skip", Key: []policy.Part{policy.Header("X").IfMissing(policy.MissingSkip)}, Limits: bucket()},
		{Name: "deny", Key: []policy.Part{policy.Header("X").IfMissing(policy.MissingDeny)}, Limits: bucket()},
		{Name: "share", Key: []policy.Part{policy.Header("X")}, Limits: bucket()},
	}})
	for _, c := range []struct {
		rule    string
		key     []string
		unknown bool
	}{
		{"none", nil, true},
		{"ip", nil, false},
		{"ip", []string{"192.0.2.1", "b"}, false},
		{"ip", []string{"localhost"}, false},
	} {
		_, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: c.rule, Key: c.key})
		var bad *policy.RuleRequestError
		if !errors.As(err, &bad) || bad.Unknown != c.unknown || bad.Rule != c.rule {
			t.Errorf("rule %s with key %q: %v, want an error that names the rule", c.rule, c.key, err)
		}
		if err := p.Reset(t.Context(), &stub{}, c.rule, c.key...); !errors.As(err, &bad) {
			t.Errorf("Reset of %s %q: %v", c.rule, c.key, err)
		}
	}
	for rule, want := range map[string]string{"skip": "deny no-rule", "deny": "deny missing-key", "share": "allow "} {
		v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: rule, Key: []string{""}})
		if got := fmt.Sprint(v.Action, " ", v.Reason); err != nil || got != want {
			t.Errorf("%s without a value: %s, %v; want %s", rule, got, err, want)
		}
	}
	v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "ip", Key: []string{"192.0.2.1"}, Cost: -1})
	var bad *sluice.RequestError
	if err != nil || v.Allowed() || !errors.As(v.Err, &bad) {
		t.Errorf("a negative cost: %v, %v", v.Action, err)
	}
}

func TestDecideRuleCost(t *testing.T) {
	rules := named("a", "b")
	rules[1].Cost.Units = 5
	p := mustPolicy(t, policy.Options{Rules: rules})
	for _, c := range []struct {
		rule       string
		cost, want int64
	}{{"a", 0, 1}, {"a", 3, 3}, {"b", 0, 5}, {"b", 3, 3}} {
		s := &stub{keep: true}
		if _, err := p.DecideRule(t.Context(), s, policy.RuleRequest{Rule: c.rule, Cost: c.cost}); err != nil || s.requests[0].Cost != c.want {
			t.Errorf("%s with cost %d: %d, %v; want %d", c.rule, c.cost, s.requests[0].Cost, err, c.want)
		}
	}
}

func TestResetEveryLimit(t *testing.T) {
	store := mustMemory(t)
	limits := []*sluice.Limit{
		sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1)}),
		sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)}),
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{policy.Header("X")}, Limits: limits}}})
	a := &policy.Attributes{Values: values{header: map[string]string{"X": "a"}}}
	outcome := func() (got []policy.Action) {
		for range 2 {
			v := p.Decide(context.Background(), store, a)
			got = append(got, v.Action)
		}
		return got
	}
	want := []policy.Action{policy.Allow, policy.Deny}
	if got := outcome(); !slices.Equal(got, want) {
		t.Fatalf("the outcomes are %v, want %v", got, want)
	}
	if err := p.Reset(t.Context(), store, "r", "a"); err != nil {
		t.Fatal(err)
	}
	if got := outcome(); !slices.Equal(got, want) {
		t.Errorf("after the reset: %v", got)
	}
	broken := errors.New("broken")
	if err := p.Reset(t.Context(), &stub{err: broken}, "r", "a"); !errors.Is(err, broken) {
		t.Errorf("Reset = %v", err)
	}
}

// The settings of a template apply to all its parts.
func TestSettingsOfATemplateApplyToItsParts(t *testing.T) {
	wide := policy.Template("{client_ip}/{header:X}").IfMissing(policy.MissingDeny)
	wide.IPv6Prefix = 48
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{wide}, Limits: bucket()}}})
	a := &policy.Attributes{ClientIP: netip.MustParseAddr("2001:db8:1:2::3"), Values: values{header: map[string]string{"X": "2001:db8:1::/48"}}}
	s := &stub{keep: true}
	p.Decide(t.Context(), s, a)
	if want := sluice.NewKey("2001:db8:1::/48", "2001:db8:1::/48"); s.requests[0].Key != want {
		t.Errorf("the key is %q", s.requests[0].Key.Parts())
	}
	a.Values = nil
	if v := p.Decide(t.Context(), s, a); v.Reason != sluice.ReasonMissingKey || v.Missing.String() != "header:X" {
		t.Errorf("without a part: %s", v.String())
	}
	// A RuleRequest gives the values of the template's parts.
	if _, err := p.DecideRule(t.Context(), s, policy.RuleRequest{Rule: "r", Key: []string{"2001:db8:1:7::9", "b"}}); err != nil {
		t.Fatal(err)
	}
	if want := sluice.NewKey("2001:db8:1::/48", "b"); s.requests[1].Key != want {
		t.Errorf("the key is %q", s.requests[1].Key.Parts())
	}
	if key := p.Rule("r").Key; len(key) != 2 || key[0].Source != source.ClientIP {
		t.Errorf("the rule's key is %v", key)
	}
}

// Text that is split differently makes another key.
func TestTemplatesAreInjective(t *testing.T) {
	key := func(a, b string) sluice.Key {
		k, _ := keyOf(t, &policy.Attributes{Values: values{header: map[string]string{"A": a, "B": b}}}, nil, policy.Template("{header:A}/{header:B}"))
		return k
	}
	if key("x/y", "z") == key("x", "y/z") {
		t.Error("two splits of one text have the same key")
	}
}

// Any template makes injective keys, or is refused.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{client_ip}/{header:X-Tenant}", "", "{", "}{", "{}", "{{}}", "{header:}", "{template:{path}}", "a{path}b{host}c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policy.New(policy.Options{Rules: []policy.Rule{{
			Name: "r", Match: policy.Match{Paths: []string{"/{id}"}}, Key: []policy.Part{policy.Template(text)}, Limits: bucket(),
		}}})
		if err != nil {
			var bad *policy.RuleError
			if !errors.As(err, &bad) || bad.Field != "Key[0]" {
				t.Fatalf("template %q: %v, want an error about Key[0]", text, err)
			}
			return
		}
		if key := p.Rule("r").Key; len(key) == 0 || len(key) != strings.Count(text, "{") {
			t.Fatalf("%q is taken for the parts %v", text, key)
		}
	})
}

// A network is the key of an address only if all its addresses have this key. Another one would be the key of its first address.
func TestNetworksAreKeysOnlyIfTheyHaveOne(t *testing.T) {
	p, err := policy.New(policy.Options{IPv6Prefix: 56, Rules: []policy.Rule{{Name: "ip", Key: []policy.Part{policy.ClientIP()}, Limits: day(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7/32": "192.0.2.7", "192.0.2.0/24": "", "0.0.0.0/0": "", "::ffff:192.0.2.7/128": "192.0.2.7", "::ffff:192.0.2.0/120": "",
		"2001:db8:0:1::1": "2001:db8::/56", "2001:db8::/56": "2001:db8::/56", "2001:db8::/64": "2001:db8::/56", "2001:db8::/55": "", "::/0": "", "192.0.2.7/x": "", "192.0.2.7/33": "",
	} {
		k, err := p.KeyOf("ip", text)
		if values := p.KeyValues("ip", k); want == "" && err == nil || want != "" && (err != nil || values[0] != want) {
			t.Errorf("%s is the key %v, with the error %v; want %q", text, values, err, want)
		}
	}
}
