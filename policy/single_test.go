package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

func mustSingle(t *testing.T, r policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.Single(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The limits of a single rule keep their names, which must differ.
func TestSingleKeepsNames(t *testing.T) {
	a, b := sluice.MustLimit("a", sluice.FixedWindow{Rate: sluice.PerDay(5)}), sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(9)})
	rule := policy.Rule{Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{a, b}}
	p := mustSingle(t, rule)
	results := p.LimitsFor(&policy.Attributes{})
	if len(results) != 2 || results[0].Request.Limit != a || results[1].Request.Limit != b || results[0].Rule.Name != "" {
		t.Errorf("the limits are %+v", results)
	}
	rule.Limits = []*sluice.Limit{a, a}
	var bad *policy.RuleError
	if _, err := policy.Single(rule); !errors.As(err, &bad) || bad.Field != "Limits[1].Name" {
		t.Errorf("two limits with the same name: %v", err)
	}
	rule.Limits, rule.Name = []*sluice.Limit{a}, "no name"
	if _, err := policy.Single(rule); !errors.As(err, &bad) || bad.Field != "Name" {
		t.Errorf("a bad name: %v", err)
	}
}

// A single rule in shadow denies nothing, although a plain rule decides on a shorter path.
func TestSingleRulesInShadowDenyNothing(t *testing.T) {
	p := mustSingle(t, policy.Rule{Shadow: true, Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("r", sluice.FixedWindow{Rate: sluice.PerDay(1)})}})
	store := mustMemory(t)
	for i := range 3 {
		if v := p.Decide(t.Context(), store, &policy.Attributes{}); !v.Allowed() || len(v.Results) != 1 || v.Results[0].Decision.Allowed != (i == 0) {
			t.Errorf("request %d: %s", i, v.String())
		}
	}
}

// A single rule decides like the same rule in a larger policy, although its code path is shorter.
func TestSingleDecidesAsAPolicyDoes(t *testing.T) {
	parts := [][]policy.Part{
		{policy.ClientIP()},
		{policy.Header("X-A")},
		{policy.Header("X-A").IfMissing(policy.MissingSkip), policy.Header("X-B").IfMissing(policy.MissingDeny)},
		{policy.Header("X-A"), policy.ClientIP(), policy.Constant("c")},
		{policy.Path()},
		{policy.Header("X-A").IfRepeated(policy.RepeatedLast)},
		{policy.Header("X-A").IfRepeated(policy.RepeatedFirst), policy.Header("X-B").IfMissing(policy.MissingSkip).IfRepeated(policy.RepeatedShared)},
	}
	algorithms := []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 3},
		sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 3},
		sluice.FixedWindow{Rate: sluice.PerSecond(4)},
		sluice.SlidingLog{Rate: sluice.PerSecond(4), CountDenied: true},
		sluice.Concurrency{Max: 3, Queue: 1},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i, key := range parts {
		for j, algorithm := range algorithms {
			rule := policy.Rule{Key: key, Limits: []*sluice.Limit{sluice.MustLimit("r", algorithm)}, Cost: policy.Cost{Header: "X-Cost"}}
			if r.IntN(2) == 0 {
				rule.Ban = &sluice.Ban{After: 3, Within: time.Minute, For: time.Second}
				rule.BanShared = key[0].Source == source.Path
			}
			if r.IntN(2) == 0 {
				rule.Cost = policy.Cost{Function: func(a *policy.Attributes) int64 { return a.Cost }}
			}
			single := mustSingle(t, rule)
			rule.Name = "r"
			whole := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
			var now int64 = 1e6
			var stores [2]*memory.Store
			for k := range stores {
				var err error
				if stores[k], err = memory.New(memory.Options{Stripes: 1, Clock: func() int64 { return now }}); err != nil {
					t.Fatal(err)
				}
			}
			for step := range 300 {
				now += r.Int64N(200_000)
				headers := several{}
				for range r.IntN(4) * r.IntN(2) {
					headers["X-A"] = append(headers["X-A"], strconv.Itoa(r.IntN(3)))
				}
				for range 1 - r.IntN(4)/3 + r.IntN(8)/7 {
					headers["X-B"] = append(headers["X-B"], "b")
				}
				for range r.IntN(4) / 2 {
					headers["X-Cost"] = append(headers["X-Cost"], strconv.Itoa(r.IntN(4)))
				}
				a := policy.Attributes{Path: []string{"/a", "", "/a/%2e%2e/b", "/b"}[r.IntN(4)], Values: headers, Cost: r.Int64N(4) - 1}
				if r.IntN(3) > 0 {
					a.ClientIP = netip.MustParseAddr([]string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1"}[r.IntN(3)])
				}
				if r.IntN(5) == 0 {
					a.MaxWait = time.Duration(r.IntN(300)) * time.Millisecond
				}
				decide := (*policy.Policy).Decide
				if r.IntN(4) == 0 {
					decide = (*policy.Policy).Peek
				}
				v, want := decide(single, t.Context(), stores[0], &a), decide(whole, t.Context(), stores[1], &a)
				if got, want := outline(&v), outline(&want); got != want {
					t.Fatalf("key %d, algorithm %d, step %d: got\n%s\nwant\n%s", i, j, step, got, want)
				}
			}
		}
	}
}

// outline returns a verdict as text, without its random parts and the name of its rule.
func outline(v *policy.Verdict) string {
	d := v.Tightest
	d.Receipt = sluice.Receipt{}
	text := fmt.Sprintf("%v %v %+v %v %v %v", v.Action, v.Reason, d, v.Delay, v.Err != nil, v.Missing)
	for i := range v.Results {
		m := &v.Results[i]
		text += fmt.Sprintf("\n%q cost %d %v %v %v %v remains %d, charged %v", m.Request.Key.Text(), m.Request.Cost, m.Request.MaxWait, m.Decision.Reason, m.Role, m.Decision.Delay, m.Decision.Remaining, m.Charged())
	}
	return text
}

// named2 holds headers by name.
type named2 map[string]string

func (n named2) Header(name string) (string, bool) { v, ok := n[name]; return v, ok }
func (named2) Cookie(string) (string, bool)        { return "", false }
func (named2) Query(string) (string, bool)         { return "", false }

// A missing part that denies wins over a missing part that skips the rule, in any order.
func TestDenyingWinsOverSkipping(t *testing.T) {
	skip, deny := policy.Header("X-A").IfMissing(policy.MissingSkip), policy.Header("X-B").IfMissing(policy.MissingDeny)
	for _, key := range [][]policy.Part{{skip, deny}, {deny, skip}, {skip, policy.Header("X-C"), deny}} {
		rule := global("r", 5, policy.Deny)
		rule.Key = key
		for name, p := range map[string]*policy.Policy{"a policy": mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}}), "a single rule": mustSingle(t, rule)} {
			v := p.Decide(t.Context(), mustMemory(t), &policy.Attributes{})
			if v.Allowed() || v.Reason != sluice.ReasonMissingKey || v.Missing == nil || v.Missing.Name != "X-B" {
				t.Errorf("%s: %s, want a denial for the missing X-B", name, v.String())
			}
			v = p.Decide(t.Context(), mustMemory(t), &policy.Attributes{Values: named2{"X-B": "b"}})
			if !v.Allowed() || v.Reason != sluice.ReasonNoRule {
				t.Errorf("%s, with a part that denies: %s", name, v.String())
			}
		}
	}
}

// Functions return key parts and costs.
func TestFunctionsReturnPartsAndCosts(t *testing.T) {
	tenant := policy.Function("tenant", func(a *policy.Attributes) (string, bool) { return a.Host, a.Host != "none" })
	p := mustSingle(t, policy.Rule{
		Key: []policy.Part{tenant.IfMissing(policy.MissingDeny)}, Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerDay(5)})},
		Cost: policy.Cost{Function: func(a *policy.Attributes) int64 { return a.Cost }},
	})
	store := mustMemory(t)
	for _, c := range []struct {
		host    string
		cost    int64
		reason  sluice.Reason
		remains int64
	}{
		{"a", 3, sluice.ReasonNone, 2},
		{"b", 1, sluice.ReasonNone, 4},
		{"a", 0, sluice.ReasonNone, 2},
		{"a", 3, sluice.ReasonLimited, 2},
		{"a", -1, sluice.ReasonNever, 0},
		{"none", 1, sluice.ReasonMissingKey, 0},
		{"", 1, sluice.ReasonMissingKey, 0},
	} {
		v := p.Decide(t.Context(), store, &policy.Attributes{Host: c.host, Cost: c.cost})
		if v.Reason != c.reason || v.Tightest.Remaining != c.remains {
			t.Errorf("%+v: the verdict is %s", c, v.String())
		}
	}
	if v, err := p.DecideRule(context.Background(), store, policy.RuleRequest{Key: []string{"b"}, Peek: true}); err != nil || v.Tightest.Remaining != 4 {
		t.Errorf("by the rule: %v, %v", v.String(), err)
	}
	for _, c := range []struct {
		rule  policy.Rule
		field string
	}{
		{policy.Rule{Key: []policy.Part{{Source: source.Function, Name: "x"}}}, "Key[0]"},
		{policy.Rule{Key: []policy.Part{policy.Function("", tenant.Value)}}, "Key[0]"},
		{policy.Rule{Key: []policy.Part{policy.Global()}, Cost: policy.Cost{Source: policy.CostFunction}}, "Cost.Function"},
		{policy.Rule{Key: []policy.Part{policy.Global()}, Cost: policy.Cost{Function: func(*policy.Attributes) int64 { return 1 }, Units: 2}}, "Cost.Function"},
	} {
		c.rule.Limits = []*sluice.Limit{sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerDay(5)})}
		var bad *policy.RuleError
		if _, err := policy.Single(c.rule); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("want a mistake in %s, got %v", c.field, err)
		}
	}
	if _, err := policy.ParsePart("function:x"); err == nil {
		t.Error("ParsePart returned a function")
	}
}

// A decider uses the new policy after a change.
func TestDecidersUseTheNewPolicy(t *testing.T) {
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("r", 5, policy.Deny)}})
	if _, err := policy.NewDecider(nil, mustMemory(t)); err == nil {
		t.Error("NewDecider accepted a missing policy")
	}
	if _, err := policy.NewDecider(p, nil); err == nil {
		t.Error("NewDecider accepted a missing store")
	}
	d, err := policy.NewDecider(p, mustMemory(t))
	if err != nil {
		t.Fatal(err)
	}
	d.Decide(t.Context(), &policy.Attributes{})
	next := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("r", 9, policy.Deny)}, Earlier: p})
	if err := d.SetPolicy(nil); err == nil || d.Policy() == nil {
		t.Errorf("SetPolicy(nil): %v, and the policy is %p", err, d.Policy())
	}
	if err := d.SetPolicy(next); err != nil {
		t.Fatal(err)
	}
	if v := d.Peek(t.Context(), &policy.Attributes{}); d.Policy() != next || v.Tightest.Limit != 9 || v.Tightest.Remaining != 8 {
		t.Errorf("after the change: %s", v.String())
	}
	if err := d.Reset(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	if v, err := d.DecideRule(t.Context(), policy.RuleRequest{Rule: "r"}); err != nil || v.Tightest.Remaining != 8 {
		t.Errorf("after a reset: %s, %v", v.String(), err)
	}
}
