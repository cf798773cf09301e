package policy_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

func ExampleNew() {
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name:  "login",
		Match: policy.Match{Paths: []string{"/login"}, Methods: []string{"POST"}},
		Key:   []policy.Part{policy.ClientIP(), policy.Header("X-User").IfMissing(policy.MissingDeny)},
		Limits: []*sluice.Limit{
			sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerMinute(5)}),
			sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(50), Calendar: sluice.CalendarDay}),
		},
		OnStoreError: sluice.FallbackDeny,
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range p.Rule("login").Limits {
		fmt.Println(l)
	}
	// Output:
	// login: sliding_log(5/m)
	// login/daily: fixed_window(50/day zone=UTC)
}

func ExamplePolicy_Decide() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name:   "per-client",
		Match:  policy.Match{Paths: []string{"/api/**"}},
		Key:    []policy.Part{policy.ClientIP()},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 2})},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := &policy.Attributes{Method: "GET", Path: "/api//users/%2e", ClientIP: netip.MustParseAddr("203.0.113.7")}
	for range 3 {
		v := p.Decide(context.Background(), store, a)
		fmt.Printf("%v by %s: %d left\n", v.Action, v.Rule.Name, v.Tightest.Remaining)
	}
	// Output:
	// allow by per-client: 1 left
	// allow by per-client: 0 left
	// deny by per-client: 0 left
}

func ExamplePolicy_DecideRule() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name:   "tokens",
		Key:    []policy.Part{policy.Constant("v1"), policy.Header("X-Tenant")},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1000)})},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := p.DecideRule(context.Background(), store, policy.RuleRequest{Rule: "tokens", Key: []string{"acme"}, Cost: 300})
	fmt.Println(v.Action, v.Tightest.Remaining, err)

	_, err = p.DecideRule(context.Background(), store, policy.RuleRequest{Rule: "tokens", Key: []string{"v1", "acme"}})
	fmt.Println(err)
	// Output:
	// allow 700 <nil>
	// policy: rule "tokens": the key and the rule's differ in their number of parts, 2 and 1: [header:X-Tenant]
}

func ExamplePaths_Clean() {
	var paths policy.Paths
	for _, p := range []string{"/login", "//login/", "/./a/../login", "/%6cogin", "/login%2Fme", "/caf\u00e9"} {
		fmt.Println(paths.Clean(p))
	}
	// Output:
	// /login
	// /login
	// /login
	// /login
	// /login%2Fme
	// /caf%C3%A9
}

// A trace shows which rules match a request, and why the others do not.
func ExamplePolicy_Trace() {
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{
			Name: "per-client", Key: []policy.Part{policy.ClientIP()},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(100)})},
		},
		{
			Name: "login", Match: policy.Match{Paths: []string{"/login"}, Methods: []string{"POST"}}, Key: []policy.Part{policy.ClientIP()},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerMinute(5)})},
		},
	}})
	if err != nil {
		panic(err)
	}
	t := p.Trace(&policy.Attributes{Method: "GET", Path: "/login/", ClientIP: netip.MustParseAddr("192.0.2.1")})
	for _, r := range t.Rules {
		if u := r.Unmet; u != nil {
			fmt.Printf("%s does not match: the %s is %s, not %s\n", r.Rule.Name, u.Condition, u.Value, u.OneOf[0])
			continue
		}
		fmt.Printf("%s counts for %s, by %v\n", r.Rule.Name, r.Key[0].Value, r.Results[0].Request.Limit)
	}
	// Output:
	// per-client counts for 192.0.2.1, by per-client: token_bucket(100/m)
	// login does not match: the method is GET, not POST
}

// A gateway such as Envoy sends descriptors instead of requests. Both limits of the call are charged, or none is.
func ExampleDecider_DecideDescriptors() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	rule := func(name string, n int64, entries ...descriptors.PatternEntry) policy.Rule {
		return policy.Rule{
			Name: name, Match: policy.Match{Descriptor: &descriptors.Pattern{Domain: "edge", Entries: entries}},
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(n)})},
		}
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		rule("tenant", 100, descriptors.PatternEntry{Key: "tenant"}),
		rule("images", 2, descriptors.PatternEntry{Key: "path", Value: "/img/*", Shared: true}),
	}})
	if err != nil {
		panic(err)
	}
	d, err := policy.NewDecider(p, store)
	if err != nil {
		panic(err)
	}
	for _, path := range []string{"/img/a", "/img/b", "/img/c"} {
		v := d.DecideDescriptors(context.Background(), "edge", []descriptors.Request{
			{Entries: []descriptors.Entry{{Key: "tenant", Value: "acme"}}},
			{Entries: []descriptors.Entry{{Key: "path", Value: path}}},
		})
		fmt.Println(path, v.Allowed(), v.Descriptors[0].Remaining(), v.Descriptors[1].Remaining())
	}
	// Output:
	// /img/a true 99 1
	// /img/b true 98 0
	// /img/c false 98 0
}
