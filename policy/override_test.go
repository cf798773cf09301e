package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// tenants returns a rule by header, with overrides for some tenants.
func tenants() policy.Rule {
	return policy.Rule{
		Name: "tenants", Key: []policy.Part{policy.Constant("v1"), policy.Header("X-Tenant")},
		Limits: []*sluice.Limit{
			sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(2)}),
			sluice.MustLimit("hourly", sluice.FixedWindow{Rate: sluice.PerHour(5)}),
		},
		Overrides: []policy.Override{
			{Key: []string{"gold"}, Limits: []*sluice.Limit{
				sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(100)}),
				sluice.MustLimit("hourly", sluice.FixedWindow{Rate: sluice.PerHour(50)}),
			}},
			{Key: []string{""}, Limits: []*sluice.Limit{
				sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(1)}),
				sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(1)}),
			}},
		},
	}
}

func tenant(name string) *policy.Attributes {
	return &policy.Attributes{Values: values{header: map[string]string{"X-Tenant": name}}}
}

// A key with numbers of its own has these, and others have the numbers of the rule.
func TestOverriddenKeysHaveTheirNumbers(t *testing.T) {
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{tenants()}})
	for _, c := range []struct {
		tenant   string
		numbers  []int64
		override bool
	}{
		{"silver", []int64{2, 5}, false},
		{"gold", []int64{100, 50}, true},
		{"", []int64{1, 1}, true}, // requests without the header share a budget, with its own limits
	} {
		for i, m := range p.LimitsFor(tenant(c.tenant)) {
			if m.Request.Limit.Capacity() != c.numbers[i] || m.Override != c.override || m.Request.Limit.Name() != []string{"tenants", "tenants/hourly"}[i] {
				t.Errorf("%q: %v, an override: %v", c.tenant, m.Request.Limit, m.Override)
			}
		}
		v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "tenants", Key: []string{c.tenant}})
		if err != nil || v.Results[0].Request.Limit.Capacity() != c.numbers[0] {
			t.Errorf("DecideRule for %q: %v, %s", c.tenant, err, v.String())
		}
	}
}

// A key's used units stay used when its override is added or removed.
func TestOverridesKeepState(t *testing.T) {
	window := func(n int64) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(n), Opened: true})}
	}
	rule := policy.Rule{
		Name: "r", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: window(2),
		Overrides: []policy.Override{{Key: []string{"gold"}, Limits: window(100)}},
	}
	with := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	rule.Overrides = nil
	without := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	store := mustMemory(t)
	for i, step := range []struct {
		p         *policy.Policy
		allowed   bool
		remaining int64
	}{
		{without, true, 1},
		{without, true, 0},
		{without, false, 0},
		{with, true, 97},
		{with, true, 96},
		{without, false, 0},
	} {
		v := step.p.Decide(t.Context(), store, tenant("gold"))
		if v.Allowed() != step.allowed || v.Tightest.Remaining != step.remaining {
			t.Errorf("step %d: %s", i, v.String())
		}
	}
}

// An override of an address applies to all its spellings, and to all addresses of its prefix.
func TestOverridesByAddress(t *testing.T) {
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{
		Name: "ip", Key: []policy.Part{policy.ClientIP()}, Limits: perDay(1),
		Overrides: []policy.Override{
			{Key: []string{"::ffff:192.0.2.1"}, Limits: perDay(5)},
			{Key: []string{"2001:db8::/64"}, Limits: perDay(5)},
		},
	}}})
	for addr, want := range map[string]bool{"192.0.2.1": true, "192.0.2.2": false, "2001:db8::99": true, "2001:db8:0:1::": false} {
		if got := p.LimitsFor(from(addr))[0].Override; got != want {
			t.Errorf("the limit of %s is of an override: %v, want %v", addr, got, want)
		}
	}
}

// Overrides with equal numbers are one limit to stores, however many keys have them.
func TestOverridesShareLimits(t *testing.T) {
	rule := policy.Rule{Name: "r", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: perDay(1)}
	for i := range 10_000 {
		rule.Overrides = append(rule.Overrides, policy.Override{Key: []string{fmt.Sprint("t", i)}, Limits: perDay(int64(10 + i%3))})
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	limits := map[*sluice.Limit]bool{}
	for i := range 10_000 {
		m := p.LimitsFor(tenant(fmt.Sprint("t", i)))[0]
		if m.Request.Limit.Capacity() != int64(10+i%3) {
			t.Fatalf("t%d has %v", i, m.Request.Limit)
		}
		limits[m.Request.Limit] = true
	}
	if len(limits) != 3 {
		t.Errorf("%d limits", len(limits))
	}
}

// Lists allow and deny keys and addresses before limits count.
func TestListsDecideBeforeLimits(t *testing.T) {
	rule := policy.Rule{
		Name: "r", Key: []policy.Part{policy.Header("X-Tenant").IfMissing(policy.MissingSkip)}, Limits: perDay(1),
		AllowKeys: [][]string{{"friend"}}, DenyKeys: [][]string{{"foe"}},
		AllowIPs: prefixes("10.0.0.0/8", "2001:db8::/32"), DenyIPs: prefixes("10.6.6.0/24"),
	}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule, global("all", 100, policy.Deny)}, Default: policy.Deny})
	for _, c := range []struct {
		tenant, addr string
		action       policy.Action
		reason       sluice.Reason
		decided      int
		list         policy.List
	}{
		{"any", "192.0.2.1", policy.Allow, 0, 2, policy.NotListed},
		{"friend", "192.0.2.1", policy.Allow, 0, 1, policy.ListAllow},
		{"any", "10.1.1.1", policy.Allow, 0, 1, policy.ListAllow},
		{"any", "::ffff:10.1.1.1", policy.Allow, 0, 1, policy.ListAllow},
		{"any", "2001:db8:1::1", policy.Allow, 0, 1, policy.ListAllow},
		{"foe", "192.0.2.1", policy.Deny, sluice.ReasonListed, 0, policy.ListDeny},
		{"foe", "10.1.1.1", policy.Deny, sluice.ReasonListed, 0, policy.ListDeny}, // denying wins
		{"friend", "10.6.6.6", policy.Deny, sluice.ReasonListed, 0, policy.ListDeny},
		{"", "10.6.6.6", policy.Allow, 0, 1, policy.NotListed}, // the rule is skipped
	} {
		a := tenant(c.tenant)
		a.ClientIP = netip.MustParseAddr(c.addr)
		s := &stub{keep: true}
		v := p.Decide(t.Context(), s, a)
		if v.Action != c.action || v.Reason != c.reason || len(s.requests) != c.decided || c.action == policy.Deny && v.Rule.Name != "r" {
			t.Errorf("%q from %s: %s", c.tenant, c.addr, v.String())
		}
		if v.Allowed() && (v.Rule.Name != map[bool]string{true: "r", false: "all"}[c.decided == 2] || len(v.Charges()) != c.decided) {
			t.Errorf("%q from %s: the tightest is %s, charged %d", c.tenant, c.addr, v.Rule.Name, len(v.Charges()))
		}
		results := p.LimitsFor(a)
		i := slices.IndexFunc(results, func(m policy.LimitResult) bool { return m.Rule.Name == "r" })
		if c.tenant != "" && (i < 0 || results[i].Listed != c.list || results[i].Decision.Allowed != (c.list == policy.ListAllow)) {
			t.Errorf("%q from %s has the results %+v", c.tenant, c.addr, results)
		}
	}
	for key, want := range map[string]string{"friend": "allow ", "foe": "deny listed", "any": "allow "} {
		s := &stub{}
		v, err := p.DecideRule(t.Context(), s, policy.RuleRequest{Rule: "r", Key: []string{key}})
		if got := fmt.Sprint(v.Action, " ", v.Reason); err != nil || got != want || s.single != map[string]int{"any": 1}[key] {
			t.Errorf("DecideRule for %q: %s, %v", key, got, err)
		}
	}
}

// Rules that mark or degrade do so for the keys on their deny lists.
func TestListsOfAdvisoryRules(t *testing.T) {
	for _, action := range []policy.Action{policy.Mark, policy.Degrade} {
		rule := global("advisory", 5, action)
		rule.DenyIPs, rule.AllowIPs = prefixes("192.0.2.0/24"), prefixes("198.51.100.0/24")
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule, global("all", 100, policy.Deny)}})
		s := &stub{}
		v := p.Decide(t.Context(), s, from("192.0.2.1"))
		if v.Action != action || s.single != 1 || v.Results[0].Listed != policy.ListDeny || len(v.Charges()) != 1 {
			t.Errorf("a rule that would %v, for a key on its list to deny: %s; want that and one charge of another rule", action, v.String())
		}
		v = p.Decide(t.Context(), &stub{answer: func(r *sluice.Request) sluice.Decision { return sluice.Decision{Allowed: r.Limit.Name() == "all"} }}, from("198.51.100.1"))
		if v.Action != policy.Allow {
			t.Errorf("on the list to allow: %s", v.String())
		}
		only := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
		if v := only.Decide(t.Context(), s, from("192.0.2.1")); v.Action != action || s.single != 1 {
			t.Errorf("the only rule would %v a key on its list to deny: %s; want that without the store", action, v.String())
		}
	}
	// Other rules see the mark of a list too.
	marked := true
	rule, drop := global("advisory", 5, policy.Mark), global("drop", 5, policy.Deny)
	rule.DenyIPs, drop.Match.Marked = prefixes("192.0.2.0/24"), &marked
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule, drop}})
	if v := p.Decide(t.Context(), &stub{}, from("192.0.2.1")); len(v.Results) != 2 {
		t.Errorf("the mark of a list: %s", v.String())
	}
}

// Overrides are found as fast among a hundred thousand as among ten, without allocation.
func BenchmarkOverrides(b *testing.B) {
	for _, n := range []int{0, 10, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rule := policy.Rule{Name: "r", Key: []policy.Part{policy.Header("X-Tenant"), policy.Method()}, Limits: perDay(1_000_000)}
			for i := range n {
				rule.Overrides = append(rule.Overrides, policy.Override{Key: []string{fmt.Sprint("t", i), "GET"}, Limits: perDay(int64(2_000_000 + i%5))})
			}
			p, store := mustPolicy(b, policy.Options{Rules: []policy.Rule{rule}}), mustMemory(b)
			a := tenant("t7")
			a.Method = "GET"
			b.ReportAllocs()
			for b.Loop() {
				if v := p.Decide(context.Background(), store, a); len(v.Results) != 1 || v.Results[0].Override != (n > 0) {
					b.Fatalf("among %d overrides, the verdict is %s; want one result, of an override if there are any", n, v.String())
				}
			}
		})
	}
}

// BenchmarkOverridesByCall decides about one key, and about keys in turn, with a table of overrides of several sizes.
func BenchmarkOverridesByCall(b *testing.B) {
	for _, n := range []int{-1, 0, 1_000_000} {
		o := policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: perDay(1_000_000)}}}
		if n >= 0 {
			o.Overrides, o.Terms = policy.NewOverrideTable(), perDayTerms(1)
		}
		for i := range n {
			if err := o.Overrides.Set("r", sluice.StringKey(fmt.Sprintf("tenant-%08d", i)), fmt.Sprint(2_000_000+i%5), time.Time{}); err != nil {
				b.Fatal(err)
			}
		}
		p := mustPolicy(b, o)
		for what, most := range map[string]int{"one": 1, "thousand": 1000} {
			b.Run(fmt.Sprint(n, "/", what), func(b *testing.B) {
				all := make([]*policy.Attributes, most)
				for i := range all {
					all[i] = tenant(fmt.Sprintf("tenant-%08d", i*997))
				}
				s := &stub{}
				for i := 0; b.Loop(); i++ {
					p.Decide(context.Background(), s, all[i%most])
				}
				if n > 0 {
					b.ReportMetric(float64(o.Overrides.Bytes())/float64(n), "B/override")
				}
			})
		}
	}
}

// TestUnitsGivenBackAreOfTheNumbersInForce gives units back to keys with the numbers of the rule and of an override.
func TestUnitsGivenBackAreOfTheNumbersInForce(t *testing.T) {
	d, _ := describing(t, policy.Options{Rules: []policy.Rule{tenants()}})
	left := func(tenant string, cost int64) (left []int64) {
		v, err := d.DecideRule(t.Context(), policy.RuleRequest{Rule: "tenants", Key: []string{tenant}, Cost: max(cost, 1), Peek: cost == 0})
		if err != nil {
			t.Fatal(err)
		}
		for i := range v.Results {
			left = append(left, v.Results[i].Decision.Remaining)
		}
		return left
	}
	for _, c := range []struct {
		tenant       string
		take, give   int64
		before, then []int64
	}{
		{"silver", 2, 1, []int64{0, 3}, []int64{1, 4}},
		{"gold", 30, 20, []int64{70, 20}, []int64{90, 40}},
		{"", 1, 5, []int64{0, 0}, []int64{1, 1}},
	} {
		if got := left(c.tenant, c.take); !slices.Equal(got, c.before) {
			t.Fatalf("%q: after %d units %v are left, want %v", c.tenant, c.take, got, c.before)
		}
		if err := d.GiveBack(t.Context(), c.give, "tenants", c.tenant); err != nil {
			t.Fatal(err)
		}
		if got := left(c.tenant, 0); !slices.Equal(got, c.then) {
			t.Errorf("%q: with %d back, %v are left, want %v", c.tenant, c.give, got, c.then)
		}
	}
	var bad *policy.RuleRequestError
	for _, err := range []error{
		d.GiveBack(t.Context(), 1, "none"), d.GiveBack(t.Context(), 1, "tenants"), d.GiveBack(t.Context(), 0, "tenants", "gold"), d.GiveBack(t.Context(), -1, "tenants", "gold"),
	} {
		if !errors.As(err, &bad) {
			t.Errorf("a wrong call returns %v, want a *RuleRequestError", err)
		}
	}
}
