package policy_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// decideAll makes a policy, and decides requests over a store in memory.
func decideAll(o policy.Options, requests ...policy.Attributes) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range requests {
		v := p.Decide(context.Background(), store, &requests[i])
		fmt.Println(v.String())
	}
}

// day returns a limit of n units. None comes back while an example runs.
func day(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerDay(n)})}
}

// Traffic beyond a contract is allowed and marked. During congestion it is dropped
// first. A gate measures the pressure; here it is a number.
func ExampleMatch_marked() {
	marked := true
	contract := policy.Rule{
		Name: "contract", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: day(1),
		WhenLimited: policy.LimitedAction{Action: policy.Mark},
	}
	service := policy.Rule{Name: "service", Key: []policy.Part{policy.Global()}, Limits: day(1000)}
	drop := policy.Rule{
		Name: "drop", Always: true,
		Match: policy.Match{Marked: &marked, Pressure: 0.9, PressureOf: "service"},
	}
	pressure := 0.5
	p, err := policy.New(policy.Options{
		Rules:    []policy.Rule{contract, service, drop},
		Pressure: func(string) float64 { return pressure },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	for _, pressure = range []float64{0.5, 0.5, 0.95} {
		v := p.Decide(context.Background(), store, &policy.Attributes{})
		fmt.Println(v.Action, v.Allowed())
	}
	// Output:
	// allow true
	// mark true
	// deny false
}

// A rule that degrades allows all requests, but requests beyond its limits get less.
func ExampleLimitedAction_degrade() {
	search := policy.Rule{
		Name: "search", Match: policy.Match{Paths: []string{"/search"}}, Key: []policy.Part{policy.ClientIP()}, Limits: day(1),
		WhenLimited: policy.LimitedAction{Action: policy.Degrade, RequestHeader: map[string]string{"X-Search": "titles-only"}},
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{search}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	a := &policy.Attributes{Path: "/search", ClientIP: netip.MustParseAddr("192.0.2.1")}
	for range 2 {
		v := p.Decide(context.Background(), store, a)
		fmt.Print(v.Action, " ", v.Allowed())
		if v.Degrade != nil {
			fmt.Print(" ", v.Degrade.WhenLimited.RequestHeader)
		}
		fmt.Println()
	}
	// Edges remove these headers from clients' requests.
	fmt.Println(p.RequestHeaders())
	// Output:
	// allow true
	// degrade true map[X-Search:titles-only]
	// [X-Search]
}

// The last fifth of a limit is kept for critical traffic.
func ExampleReserve() {
	critical := policy.Class{Name: "critical", Match: policy.Match{Paths: []string{"/checkout"}}}
	all := policy.Rule{
		Name: "all", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(5)})},
		Reserved: []policy.Reserve{{Share: 20, For: []string{"critical"}}},
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Options{Classes: []policy.Class{critical}, Rules: []policy.Rule{all}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/", "/", "/", "/", "/", "/checkout", "/checkout"} {
		v := p.Decide(context.Background(), store, &policy.Attributes{Path: path})
		fmt.Println(path, v.Class, v.Action)
	}
	// Output:
	// /  allow
	// /  allow
	// /  allow
	// /  allow
	// /  deny
	// /checkout critical allow
	// /checkout critical deny
}

func ExampleClass() {
	decideAll(policy.Options{
		Classes: []policy.Class{{
			Name: "probes", Bypass: true,
			Match: policy.Match{Paths: []string{"/healthz"}, ClientIPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		}},
		Default: policy.Deny,
	}, policy.Attributes{Path: "/healthz", ClientIP: netip.MustParseAddr("10.1.2.3")}, policy.Attributes{Path: "/healthz"})
	// Output:
	// allow: class probes bypasses all rules
	// deny: no rule matches
}

// One tenant has another limit, one is always allowed, and one is refused.
func ExampleOverride() {
	tenants := policy.Rule{
		Name: "tenants", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: day(10),
		Overrides: []policy.Override{{Key: []string{"gold"}, Limits: day(1000)}},
		AllowKeys: [][]string{{"ours"}},
		DenyKeys:  [][]string{{"gone"}},
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{tenants}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	for _, tenant := range []string{"any", "gold", "ours", "gone"} {
		v, err := p.DecideRule(context.Background(), store, policy.RuleRequest{Rule: "tenants", Key: []string{tenant}})
		fmt.Println(tenant, v.Action, v.Tightest.Remaining, v.Reason, err)
	}
	// Output:
	// any allow 9  <nil>
	// gold allow 999  <nil>
	// ours allow 0  <nil>
	// gone deny 0 listed <nil>
}

// A rule counts the tokens of a language model. It takes an estimate first and settles
// the response's actual number afterwards. A gate does the last step.
func ExampleLimitResult_Actual() {
	tokens := policy.Rule{
		Name: "tokens", Key: []policy.Part{policy.Claim("sub")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(10_000)})},
		Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 2000, Max: 8000},
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{tokens}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	v := p.Decide(ctx, store, &policy.Attributes{})
	fmt.Println(v.Tightest.Remaining, "remain,", v.Results[0].Request.Cost, "taken")
	response := policy.Outcome{Status: 200, Header: func(string) (string, bool) { return "350", true }}
	for i := range v.Results {
		if m := &v.Results[i]; m.Settles() {
			if err := store.Settle(ctx, m.Request.Charge(&m.Decision), m.Actual(response)); err != nil {
				fmt.Println(err)
			}
		}
	}
	v = p.Peek(ctx, store, &policy.Attributes{})
	fmt.Println(v.Tightest.Remaining, "remain")
	// Output:
	// 8000 remain, 2000 taken
	// 9650 remain
}

// Only failed logins count.
func ExampleStatus() {
	login := policy.Rule{
		Name: "login", Key: []policy.Part{policy.ClientIP()}, Limits: day(5),
		CountStatus: []policy.StatusRange{policy.Status(401), policy.Status(403)},
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{login}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	v := p.Decide(context.Background(), store, &policy.Attributes{ClientIP: netip.MustParseAddr("192.0.2.1")})
	fmt.Println(v.Results[0].Actual(policy.Outcome{Status: 200}), v.Results[0].Actual(policy.Outcome{Status: 401}))
	// Output: 0 1
}

// A candidate tries other numbers beside the limits in force.
func ExampleRule_candidate() {
	api := policy.Rule{Name: "api", Key: []policy.Part{policy.Global()}, Limits: day(100), Candidate: day(1)}
	store, err := memory.New(memory.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{api}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		v := p.Decide(context.Background(), store, &policy.Attributes{})
		fmt.Println(v.Action)
		for _, m := range v.Results {
			fmt.Println(" ", m.Request.Limit.Name(), m.Role, m.Decision.Allowed)
		}
	}
	// Output:
	// allow
	//   api enforced true
	//   api/candidate/1 candidate true
	// allow
	//   api enforced true
	//   api/candidate/1 candidate false
}

func ExampleTemplate() {
	part, err := policy.ParsePart("template:{client_ip}/{header:X-Tenant}")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{part}, Limits: day(1)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Rule("r").Key)
	// Output: [client_ip header:X-Tenant]
}
