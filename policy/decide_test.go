package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// named returns rules that match all requests, with one limit each.
func named(names ...string) []policy.Rule {
	rules := make([]policy.Rule, len(names))
	for i, n := range names {
		rules[i] = policy.Rule{Name: n, Key: []policy.Part{policy.Global()}, Limits: bucket()}
	}
	return rules
}

func allowed(remaining, limit int64, delay time.Duration) sluice.Decision {
	return sluice.Decision{Allowed: true, Remaining: remaining, Limit: limit, Delay: delay}
}

func denied(reason sluice.Reason, wait time.Duration) sluice.Decision {
	return sluice.Decision{Reason: reason, RetryAfter: wait, Limit: 10}
}

// The strictest action of several limits holds, and the limit that decided is named.
func TestStrictestActionHolds(t *testing.T) {
	limited, never := sluice.ReasonLimited, sluice.ReasonNever
	for _, c := range []struct {
		name    string
		answers map[string]sluice.Decision
		shadow  string
		action  policy.Action
		rule    string
		reason  sluice.Reason
		delay   time.Duration
	}{
		{
			name:    "the fewest remaining fills the headers",
			answers: map[string]sluice.Decision{"a": allowed(5, 10, 0), "b": allowed(3, 3, 0), "c": allowed(4, 100, 0)},
			rule:    "b",
		},
		{
			name:    "if as many remain, the smaller share",
			answers: map[string]sluice.Decision{"a": allowed(5, 10, 0), "b": allowed(5, 100, 0), "c": allowed(5, 50, 0)},
			rule:    "b",
		},
		{
			name:    "among equals, the first",
			answers: map[string]sluice.Decision{"a": allowed(5, 10, 0), "b": allowed(5, 10, 0), "c": allowed(6, 10, 0)},
			rule:    "a",
		},
		{
			name: "if nothing remains, the limit that takes longest to fill",
			answers: map[string]sluice.Decision{
				"a": {Allowed: true, Limit: 10, ResetAfter: 1}, "b": {Allowed: true, Limit: 5, ResetAfter: 9}, "c": {Allowed: true, Limit: 90, ResetAfter: 8},
			},
			rule: "b",
		},
		{
			name:    "the longest delay holds",
			answers: map[string]sluice.Decision{"a": allowed(1, 10, time.Second), "b": allowed(2, 10, 3*time.Second), "c": allowed(9, 10, 0)},
			rule:    "a", delay: 3 * time.Second,
		},
		{
			name:    "one denial denies, and no delay is left",
			answers: map[string]sluice.Decision{"a": allowed(0, 10, time.Hour), "b": allowed(1, 10, 0), "c": denied(limited, time.Second)},
			action:  policy.Deny, rule: "c", reason: limited,
		},
		{
			name:    "the longest wait of all denials",
			answers: map[string]sluice.Decision{"a": denied(limited, time.Second), "b": denied(sluice.ReasonBanned, time.Hour), "c": denied(limited, time.Minute)},
			action:  policy.Deny, rule: "b", reason: sluice.ReasonBanned,
		},
		{
			name:    "never is longer than any wait",
			answers: map[string]sluice.Decision{"a": denied(limited, time.Hour), "b": allowed(0, 1, 0), "c": denied(never, 0)},
			action:  policy.Deny, rule: "c", reason: never,
		},
		{
			name:    "a shadow rule enforces nothing",
			answers: map[string]sluice.Decision{"a": denied(never, 0), "b": allowed(7, 10, time.Second), "c": allowed(8, 10, 0)},
			shadow:  "a", rule: "b", delay: time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := named("a", "b", "c")
			for i := range rules {
				rules[i].Shadow = rules[i].Name == c.shadow
			}
			p := mustPolicy(t, policy.Options{Rules: rules})
			v := p.Decide(t.Context(), &stub{answer: func(r *sluice.Request) sluice.Decision { return c.answers[r.Limit.Name()] }}, &policy.Attributes{})
			if v.Action != c.action || v.Rule.Name != c.rule || v.Reason != c.reason || v.Delay != c.delay {
				t.Errorf("got %v by %s, reason %q, delay %v", v.Action, v.Rule.Name, v.Reason, v.Delay)
			}
			if v.Tightest != c.answers[c.rule] || v.TightestLimit.Name() != c.rule || v.RetryAfter() != c.answers[c.rule].RetryAfter || v.Allowed() != (c.action == policy.Allow) {
				t.Errorf("the tightest is %+v of %v", v.Tightest, v.TightestLimit)
			}
			if len(v.Results) != 3 || v.Results[0].Rule.Name != "a" || v.Results[2].Decision != c.answers["c"] {
				t.Errorf("results %+v", v.Results)
			}
		})
	}
}

// If all matching rules are in shadow, the request passes.
func TestRulesInShadowLetRequestsPass(t *testing.T) {
	rules := named("a")
	rules[0].Shadow = true
	p := mustPolicy(t, policy.Options{Rules: rules, Default: policy.Deny})
	s := &stub{keep: true, answer: func(*sluice.Request) sluice.Decision { return denied(sluice.ReasonLimited, time.Second) }}
	v := p.Decide(t.Context(), s, &policy.Attributes{})
	if !v.Allowed() || v.Rule != nil || v.Reason != sluice.ReasonNone || v.TightestLimit != nil || !s.requests[0].Shadow {
		t.Errorf("verdict %+v", v)
	}
}

// A request that no rule matches gets the default, without a call of the store.
func TestDefaultHoldsWithoutARule(t *testing.T) {
	rules := named("a")
	rules[0].Match.Paths = []string{"/a"}
	for _, action := range []policy.Action{policy.Allow, policy.Deny} {
		p := mustPolicy(t, policy.Options{Rules: rules, Default: action})
		s := &stub{keep: true}
		v := p.Decide(t.Context(), s, &policy.Attributes{Path: "/b"})
		if v.Action != action || v.Reason != sluice.ReasonNoRule || len(s.requests) > 0 || v.Rule != nil {
			t.Errorf("verdict %+v", v)
		}
	}
}

// A rule matches by all of its conditions.
func TestRulesMatchByAllConditions(t *testing.T) {
	h := func(header ...policy.ValueMatch) policy.Match { return policy.Match{Headers: header} }
	headers := func(kv ...string) *policy.Attributes {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return &policy.Attributes{Values: values{header: m}}
	}
	free := policy.ValueMatch{Name: "x-plan", OneOf: []string{"free", "trial"}}
	for _, c := range []struct {
		name  string
		match policy.Match
		yes   []*policy.Attributes
		no    []*policy.Attributes
	}{
		{"everything", policy.Match{}, []*policy.Attributes{{}, {Method: "GET", Path: "/a", Host: "b"}}, nil},
		{
			"methods",
			policy.Match{Methods: []string{"GET", "POST"}},
			[]*policy.Attributes{{Method: "GET"}, {Method: "POST"}, {Method: "HEAD"}},
			[]*policy.Attributes{{Method: "PUT"}, {}},
		},
		{"only HEAD", policy.Match{Methods: []string{"HEAD"}}, []*policy.Attributes{{Method: "HEAD"}}, []*policy.Attributes{{Method: "GET"}}},
		{
			"hosts",
			policy.Match{Hosts: []string{"API.example.com", "*.example.org"}},
			[]*policy.Attributes{{Host: "api.example.com"}, {Host: "API.Example.com.:80"}, {Host: "a.example.org"}, {Host: "b.a.example.org"}},
			[]*policy.Attributes{{Host: "example.com"}, {Host: "example.org"}, {Host: "badexample.org"}, {Host: "a.api.example.com"}, {}},
		},
		{"a value", h(free), []*policy.Attributes{headers("X-Plan", "free"), headers("X-Plan", "trial")}, []*policy.Attributes{{}, headers("X-Plan", "pro"), headers("X-Plan", ""), headers("X-Plan", "Free")}},
		{"a prefix", h(policy.ValueMatch{Name: "User-Agent", Prefixes: []string{"curl/", "Wget"}}), []*policy.Attributes{headers("User-Agent", "curl/8")}, []*policy.Attributes{{}, headers("User-Agent", "not curl/8")}},
		{"a value or a prefix", h(policy.ValueMatch{Name: "A", OneOf: []string{"x"}, Prefixes: []string{"y"}}), []*policy.Attributes{headers("A", "x"), headers("A", "yz")}, []*policy.Attributes{{}, headers("A", "xy")}},
		{"presence", h(policy.ValueMatch{Name: "A"}), []*policy.Attributes{headers("A", "x"), headers("A", "")}, []*policy.Attributes{{}, headers("B", "x")}},
		{"absence", h(policy.ValueMatch{Name: "A", Absent: true}), []*policy.Attributes{{}, headers("B", "x"), headers("A", "")}, []*policy.Attributes{headers("A", "x")}},
		{"several headers", h(policy.ValueMatch{Name: "A"}, free), []*policy.Attributes{headers("A", "1", "X-Plan", "free")}, []*policy.Attributes{headers("A", "1"), headers("X-Plan", "free")}},
		{"a condition", policy.Match{If: []policy.Matcher{fromLoopback{}}}, []*policy.Attributes{{ClientIP: netip.MustParseAddr("127.0.0.1")}}, []*policy.Attributes{{}}},
		{
			"all of them",
			policy.Match{Paths: []string{"/a", "/b"}, Methods: []string{"PUT"}, Hosts: []string{"x"}},
			[]*policy.Attributes{{Path: "/b", Method: "PUT", Host: "x"}},
			[]*policy.Attributes{{Path: "/c", Method: "PUT", Host: "x"}, {Path: "/a", Method: "GET", Host: "x"}, {Path: "/a", Method: "PUT", Host: "y"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{Name: "r", Match: c.match, Key: []policy.Part{policy.Global()}, Limits: bucket()}}})
			for _, a := range c.yes {
				if len(p.LimitsFor(a)) != 1 {
					t.Errorf("%+v does not match", a)
				}
			}
			for _, a := range c.no {
				if len(p.LimitsFor(a)) != 0 {
					t.Errorf("%+v matches", a)
				}
			}
		})
	}
}

type fromLoopback struct{}

func (fromLoopback) Matches(a *policy.Attributes) bool { return a.ClientIP.IsLoopback() }

// The store's requests have the settings of the rules.
func TestRequestsHaveTheSettingsOfRules(t *testing.T) {
	ban := &sluice.Ban{After: 3, For: time.Hour}
	rule := policy.Rule{
		Name: "r", Key: []policy.Part{policy.Global()}, Floor: 2, MaxWait: 5 * time.Second, Ban: ban, BanShared: true,
		Limits: []*sluice.Limit{
			sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100)}),
			sluice.MustLimit("flight", sluice.Concurrency{Max: 10}),
			sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(100)}),
		},
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	s := &stub{keep: true}
	v := p.Decide(t.Context(), s, &policy.Attributes{Cost: 4, MaxWait: time.Second})
	var names []string
	for i, r := range s.requests {
		names = append(names, r.Limit.Name())
		if r.Cost != 4 || r.Floor != 2 || r.MaxWait != time.Second || r.Ban.After != ban.After || r.Ban.For != ban.For || r.Peek || r.Key != sluice.StringKey("global") {
			t.Errorf("request %+v", r)
		}
		if (r.Member != 0) != (i == 1) {
			t.Errorf("the member of %s is %d", r.Limit, r.Member)
		}
	}
	if want := []string{"r", "r/flight", "r/3"}; !slices.Equal(names, want) {
		t.Errorf("the limits are %q, want %q", names, want)
	}
	charges := v.Charges()
	if len(charges) != 3 || charges[1].Member != s.requests[1].Member || charges[0].Cost != 4 || charges[0].Floor != 2 {
		t.Errorf("charges %+v", charges)
	}
	again := p.Decide(t.Context(), s, &policy.Attributes{Cost: 4})
	if again.Charges()[1].Member == charges[1].Member {
		t.Error("two requests have the same member")
	}
	s.requests = nil
	v = p.Peek(t.Context(), s, &policy.Attributes{})
	if len(v.Charges()) != 0 || !s.requests[0].Peek || s.requests[1].Member != 0 || s.requests[0].MaxWait != 5*time.Second || s.requests[0].Cost != 1 {
		t.Errorf("Peek requested %+v", s.requests)
	}
}

func TestTheShorterMaxWaitHolds(t *testing.T) {
	for _, c := range []struct{ rule, request, want time.Duration }{
		{0, 0, 0},
		{5, 0, 5},
		{0, 5, 5},
		{3, 5, 3},
		{5, 3, 3},
		{sluice.NoWait, 5, sluice.NoWait},
		{5, sluice.NoWait, sluice.NoWait},
		{sluice.NoWait, 0, sluice.NoWait},
	} {
		rules := named("a")
		rules[0].MaxWait = c.rule
		s := &stub{keep: true}
		p := mustPolicy(t, policy.Options{Rules: rules})
		p.Decide(t.Context(), s, &policy.Attributes{MaxWait: c.request})
		if got := s.requests[0].MaxWait; got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.rule, c.request, got, c.want)
		}
	}
}

// A cost comes from its source, within its bounds.
func TestCostsStayWithinTheirBounds(t *testing.T) {
	header := func(v string) policy.Values { return values{header: map[string]string{"X-Cost": v}} }
	for _, c := range []struct {
		cost policy.Cost
		a    policy.Attributes
		want int64
	}{
		{want: 1},
		{a: policy.Attributes{Cost: 7}, want: 7},
		{cost: policy.Cost{Units: 5}, a: policy.Attributes{Cost: 7}, want: 5},
		{cost: policy.Cost{Header: "x-cost"}, a: policy.Attributes{Values: header("9")}, want: 9},
		{cost: policy.Cost{Header: "x-cost"}, a: policy.Attributes{Cost: 7}, want: 7},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, want: 3},
		{cost: policy.Cost{Header: "x-cost", Units: 3, Max: 8}, a: policy.Attributes{Values: header("9")}, want: 8},
		{cost: policy.Cost{Header: "x-cost", Units: 3, Max: 8}, a: policy.Attributes{Values: header("1")}, want: 1},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("0")}, want: 3},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("-5")}, want: 3},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("+5")}, want: 3},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("5.5")}, want: 3},
		// A number beyond 63 bits is the largest number, with and without a cap.
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("9223372036854775807")}, want: math.MaxInt64},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("9223372036854775808")}, want: math.MaxInt64},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("99999999999999999999")}, want: math.MaxInt64},
		{cost: policy.Cost{Header: "x-cost", Units: 3, Max: 8}, a: policy.Attributes{Values: header("9223372036854775807")}, want: 8},
		{cost: policy.Cost{Header: "x-cost", Units: 3, Max: 8}, a: policy.Attributes{Values: header("9223372036854775808")}, want: 8},
		{cost: policy.Cost{Header: "x-cost", Units: 3, Max: 8}, a: policy.Attributes{Values: header("00000000000000000000005")}, want: 5},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: header("NaN")}, want: 3},
		// The highest of several headers counts.
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: several{"X-Cost": {"4", "9", "5"}}}, want: 9},
		{cost: policy.Cost{Header: "x-cost", Units: 3, Max: 8}, a: policy.Attributes{Values: several{"X-Cost": {"9223372036854775808", "1"}}}, want: 8},
		{cost: policy.Cost{Header: "x-cost", Units: 3}, a: policy.Attributes{Values: several{"X-Cost": {"1", "-7"}}}, want: 3},
	} {
		rules := named("a")
		rules[0].Cost = c.cost
		s := &stub{keep: true}
		p := mustPolicy(t, policy.Options{Rules: rules})
		p.Decide(t.Context(), s, &c.a)
		if got := s.requests[0].Cost; got != c.want {
			t.Errorf("%+v of %+v: %d, want %d", c.cost, c.a, got, c.want)
		}
	}
}

// A negative cost is refused, whatever the rules' fallbacks are.
func TestNegativeCost(t *testing.T) {
	s := &stub{keep: true}
	p := mustPolicy(t, policy.Options{Rules: named("a")})
	v := p.Decide(t.Context(), s, &policy.Attributes{Cost: -1})
	var bad *sluice.RequestError
	if v.Allowed() || !errors.As(v.Err, &bad) || v.Reason != sluice.ReasonNever || len(s.requests) > 0 || v.Rule.Name != "a" {
		t.Errorf("verdict %+v", v)
	}
}

func TestChargesOfDenied(t *testing.T) {
	rules := named("a", "b", "c")
	rules[1].Shadow = true
	p := mustPolicy(t, policy.Options{Rules: rules})
	v := p.Decide(t.Context(), &stub{answer: func(r *sluice.Request) sluice.Decision {
		if r.Limit.Name() == "c" {
			return denied(sluice.ReasonLimited, time.Second)
		}
		return allowed(1, 2, 0)
	}}, &policy.Attributes{})
	if got := v.Charges(); len(got) != 1 || got[0].Limit.Name() != "b" {
		t.Errorf("charges %+v", got)
	}
}

func TestOneLimitIsNoBatch(t *testing.T) {
	s := &stub{}
	p := mustPolicy(t, policy.Options{Rules: named("a")})
	p.Decide(t.Context(), s, &policy.Attributes{})
	if s.single != 1 {
		t.Errorf("%d calls of Decide", s.single)
	}
}

// Over a real store, a denied request charges none of its limits.
func TestAllOrNothing(t *testing.T) {
	store := mustMemory(t)
	rules := []policy.Rule{
		{Name: "wide", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(100)})}},
		{Name: "narrow", Key: []policy.Part{policy.Header("X")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerDay(2)})}},
	}
	p := mustPolicy(t, policy.Options{Rules: rules})
	a := &policy.Attributes{Values: values{header: map[string]string{"X": "a"}}}
	var got []string
	for range 4 {
		v := p.Decide(t.Context(), store, a)
		got = append(got, fmt.Sprintf("%v %s", v.Action, v.Rule.Name))
	}
	if want := []string{"allow narrow", "allow narrow", "deny narrow", "deny narrow"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	v, err := p.DecideRule(t.Context(), store, policy.RuleRequest{Rule: "wide", Peek: true})
	if err != nil || v.Tightest.Remaining != 98 {
		t.Errorf("%d of the wide rule remain, %v", v.Tightest.Remaining, err)
	}
}

// A policy admits as many requests at once as a limit has units, and more after a release.
func TestConcurrencyLimit(t *testing.T) {
	store := mustMemory(t)
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{
		Name: "flight", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 2})},
	}}})
	var held []sluice.Charge
	for i := range 3 {
		v := p.Decide(t.Context(), store, &policy.Attributes{})
		if v.Allowed() != (i < 2) {
			t.Fatalf("request %d: %s", i, v.String())
		}
		held = append(held, v.Charges()...)
	}
	if len(held) != 2 {
		t.Fatalf("%d are held", len(held))
	}
	if err := store.Release(t.Context(), held[0], time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if v := p.Decide(t.Context(), store, &policy.Attributes{}); !v.Allowed() {
		t.Errorf("after the release, the verdict is %s", v.String())
	}
}

// Verdicts share no memory.
func TestVerdictsAreTheirOwn(t *testing.T) {
	p := mustPolicy(t, policy.Options{Rules: manyRules(5)})
	s := &stub{}
	keys := func(v policy.Verdict) (all []string) {
		for _, m := range v.Results {
			all = append(all, strings.Join(m.Request.Key.Parts(), "|"))
		}
		return all
	}
	decide := func(user string) policy.Verdict {
		return p.Decide(context.Background(), s, &policy.Attributes{
			Method: "GET", Path: "/svc2/v1/" + user, ClientIP: netip.MustParseAddr("192.0.2.1"), Values: values{header: map[string]string{"X-User": user}},
		})
	}
	var group sync.WaitGroup
	for i := range 8 {
		user := fmt.Sprintf("user%d", i)
		want := []string{"192.0.2.1", user + "|192.0.2.1", user + "|/svc2/v1/" + user}
		group.Go(func() {
			var kept []policy.Verdict
			for range 200 {
				kept = append(kept, decide(user))
			}
			for _, v := range kept {
				if got := keys(v); !slices.Equal(got, want) {
					t.Errorf("the keys are %q, want %q", got, want)
					return
				}
			}
		})
	}
	group.Wait()
}

// A decision allocates only what the verdict keeps: the list of results, and the text of all keys.
func TestDecideAllocations(t *testing.T) {
	networks := []netip.Prefix{}
	for i := range 10_000 {
		networks = append(networks, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
	}
	rich := manyRules(1000)
	rich[0].DenyIPs, rich[0].AllowKeys = networks, [][]string{{"198.51.100.1"}}
	rich[0].Reserved = []policy.Reserve{{Share: 20, For: []string{"critical"}}}
	rich[0].Match.Unless = []policy.Match{{Paths: []string{"/health"}}, {ClientIPs: networks}}
	rich[1].Overrides = []policy.Override{{Key: []string{"alice", "203.0.113.7"}, Limits: rich[1].Limits}}
	rich[1].WhenLimited.Action = policy.Degrade
	rich[999].Cost.Source = policy.CostResponseBytes
	classes := []policy.Class{{Name: "critical", Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan"}}}}}
	for name, rules := range map[string][]policy.Rule{"plain": manyRules(1000), "every feature": rich} {
		p := mustPolicy(t, policy.Options{Rules: rules, Classes: classes})
		store := mustMemory(t)
		a := manyAttributes(1000)
		if v := p.Decide(t.Context(), store, a); len(v.Results) != 3 {
			t.Fatalf("policy %s: want three results, got %s", name, v.String())
		}
		if n := testing.AllocsPerRun(200, func() { p.Decide(context.Background(), store, a) }); n > 2 && !raceEnabled {
			t.Errorf("%s: a decision of 3 rules allocates %v times; the most is 2", name, n)
		}
		freed := func() {
			v := p.Decide(context.Background(), store, a)
			v.Free()
		}
		if n := testing.AllocsPerRun(200, freed); n > 1 && !raceEnabled {
			t.Errorf("%s: a decision of 3 rules allocates %v times after verdicts were freed; the most is 1", name, n)
		}
	}
}

// The memory of a freed verdict changes no later verdict: of more, fewer or no results.
func TestFreedVerdictsLeaveNothing(t *testing.T) {
	now := int64(1_900_000_000_000_000)
	clock := func() int64 { return now }
	var stores [2]sluice.Store
	for i := range stores {
		s, err := memory.New(memory.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	rules := manyRules(1000)
	rules[1].Shadow = true
	rules[2].AllowKeys = [][]string{{"alice", "203.0.113.7"}}
	p := mustPolicy(t, policy.Options{Rules: rules})
	counts := map[int]bool{}
	for step := range 300 {
		now += 1000
		a := manyAttributes(1000)
		switch step % 3 {
		case 1:
			a.Path = "/unknown"
		case 2:
			a.Values = nil
		}
		want, got := p.Decide(t.Context(), stores[0], a), p.Decide(t.Context(), stores[1], a)
		counts[len(got.Results)] = true
		if got, want := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); got != want {
			t.Fatalf("step %d: the verdict in freed memory is %s, want %s", step, got, want)
		}
		got.Free()
	}
	if len(counts) < 2 {
		t.Errorf("all verdicts have %v results, want different numbers", counts)
	}
}
