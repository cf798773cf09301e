package policy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// daily returns a limit of n units in a day, which begins with the first request.
func daily(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(n), Opened: true})}
}

// planned returns options with the rule "r" by tenant of 2 units a day: the plan gold has 50, silver 10, and free the rule's.
func planned(from policy.Part) policy.Options {
	rule := opened()
	rule.Overrides = append(rule.Overrides, policy.Override{Key: []string{"partner"}, Plan: "silver"})
	return policy.Options{
		Rules: []policy.Rule{rule, global("all", 1000, policy.Deny)},
		Plans: []policy.Plan{
			{Name: "gold", Limits: map[string][]*sluice.Limit{"r": daily(50)}},
			{Name: "silver", Limits: map[string][]*sluice.Limit{"r": daily(10)}},
			{Name: "free"},
		},
		PlanFrom: []policy.Part{from},
	}
}

// planValues are a tenant and what names its plan: the lines of X-Plan, a claim and an attribute.
type planValues struct {
	tenant           string
	lines            []string
	claim, attribute string
}

func (v planValues) named() policy.Values {
	s := several{"X-Tenant": {v.tenant}, "X-Plan": v.lines}
	if v.claim != "" {
		s["plan"] = []string{v.claim}
	}
	return attributed{s, v.attribute}
}

// attributed are values with an attribute.
type attributed struct {
	several
	attribute string
}

func (v attributed) Attribute(string) (string, bool) { return v.attribute, v.attribute != "" }

// A plan counts after lists and overrides, and before the rule's own numbers. Nothing that a client may have written names it, and
// several names or an unknown one never lead to the numbers of a plan.
func TestPlansCountAfterOverrides(t *testing.T) {
	table := policy.NewOverrideTable()
	terms := func(rule, text string) (policy.Terms, error) {
		if text == "gold" || text == "bronze" {
			return policy.Terms{Plan: text}, nil
		}
		return perDayTerms(1)(rule, text)
	}
	for key, text := range map[string]string{"called": "7", "promoted": "gold", "broken": "bronze", "exempt": "unlimited"} {
		if err := table.Set("r", sluice.StringKey(key), text, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	made := map[string]*policy.Policy{}
	for from, part := range map[string]policy.Part{"header": policy.Header("x-plan"), "claim": policy.Claim("plan"), "attribute": policy.Attribute("plan")} {
		for _, deny := range []bool{false, true} {
			o := planned(part)
			o.Overrides, o.Terms, o.DenyUnknownPlans = table, terms, deny
			made[fmt.Sprint(from, deny)] = mustPolicy(t, o)
		}
	}
	for _, c := range []struct {
		from     string
		values   planValues
		distrust bool
		capacity int64
		numbers  policy.NumbersFrom
		plan     string
		unknown  bool
	}{
		{from: "header", values: planValues{tenant: "a"}, capacity: 2},
		{from: "header", values: planValues{tenant: "a", lines: []string{"gold"}}, capacity: 50, numbers: policy.FromPlan, plan: "gold"},
		{from: "header", values: planValues{tenant: "a", lines: []string{"free"}}, capacity: 2, numbers: policy.FromPlan, plan: "free"},
		{from: "header", values: planValues{tenant: "a", lines: []string{"gold"}}, distrust: true, capacity: 2},
		{from: "header", values: planValues{tenant: "a", lines: []string{""}}, capacity: 2},
		{from: "header", values: planValues{tenant: "a", lines: []string{"Gold"}}, capacity: 2, unknown: true},
		{from: "header", values: planValues{tenant: "a", lines: []string{"platinum"}}, capacity: 2, unknown: true},
		{from: "header", values: planValues{tenant: "a", lines: []string{"gold", "gold"}}, capacity: 2, unknown: true},
		{from: "header", values: planValues{tenant: "a", lines: []string{"silver", "gold"}}, capacity: 2, unknown: true},
		{from: "header", values: planValues{tenant: "a", lines: []string{"unclear"}}, capacity: 2, unknown: true},
		{from: "header", values: planValues{tenant: "a", claim: "gold", attribute: "gold"}, capacity: 2},
		{from: "claim", values: planValues{tenant: "a", claim: "silver", lines: []string{"gold"}}, capacity: 10, numbers: policy.FromPlan, plan: "silver"},
		{from: "claim", values: planValues{tenant: "a", claim: "silver"}, distrust: true, capacity: 2},
		{from: "claim", values: planValues{tenant: "a", claim: "other"}, capacity: 2, unknown: true},
		{from: "attribute", values: planValues{tenant: "a", attribute: "gold"}, distrust: true, capacity: 50, numbers: policy.FromPlan, plan: "gold"},
		{from: "attribute", values: planValues{tenant: "a", attribute: "none"}, capacity: 2, unknown: true},
		// Overrides and lists come first.
		{from: "header", values: planValues{tenant: "gold", lines: []string{"silver"}}, capacity: 100, numbers: policy.FromFile},
		{from: "header", values: planValues{tenant: "gold", lines: []string{"platinum"}}, capacity: 100, numbers: policy.FromFile},
		{from: "header", values: planValues{tenant: "partner", lines: []string{"gold"}}, capacity: 10, numbers: policy.FromFile, plan: "silver"},
		{from: "header", values: planValues{tenant: "called", lines: []string{"gold"}}, capacity: 7, numbers: policy.FromCall},
		{from: "header", values: planValues{tenant: "promoted", lines: []string{"silver"}}, capacity: 50, numbers: policy.FromCall, plan: "gold"},
		{from: "header", values: planValues{tenant: "broken", lines: []string{"silver"}}, capacity: 10, numbers: policy.FromPlan, plan: "silver"},
	} {
		for _, deny := range []bool{false, true} {
			p := made[fmt.Sprint(c.from, deny)]
			a := policy.Attributes{Values: c.values.named(), TrustPlan: !c.distrust}
			m := p.LimitsFor(&a)[0]
			if m.Request.Limit.Capacity() != c.capacity || m.From != c.numbers || m.Plan() != c.plan || m.Override != (c.numbers > policy.FromPlan) {
				t.Errorf("%s, %+v: %d from %v, plan %q; want %d from %v, plan %q", c.from, c.values, m.Request.Limit.Capacity(), m.From, m.Plan(), c.capacity, c.numbers, c.plan)
			}
			v := p.Decide(t.Context(), &stub{}, &a)
			if v.UnknownPlan != c.unknown || v.Allowed() == (c.unknown && deny) || c.unknown && deny && v.Reason != sluice.ReasonUnknownPlan {
				t.Errorf("%s, %+v, unknown plans denied %v: %s, unknown %v, want %v", c.from, c.values, deny, v.String(), v.UnknownPlan, c.unknown)
			}
			trace := p.Trace(&a)
			if k := trace.Rules[0].Plan; k == nil || k.OK != (c.plan != "" && c.numbers == policy.FromPlan) && c.numbers <= policy.FromPlan {
				t.Errorf("%s, %+v: the trace has the plan %+v", c.from, c.values, k)
			}
			if trace.Rules[1].Plan != nil {
				t.Errorf("the trace of a rule without plans has %+v", trace.Rules[1].Plan)
			}
		}
	}
	for tenant, want := range map[string]policy.List{"foe": policy.ListDeny, "friend": policy.ListAllow, "exempt": policy.ListAllow} {
		a := policy.Attributes{Values: planValues{tenant: tenant, lines: []string{"platinum"}}.named(), TrustPlan: true}
		if m := made["headertrue"].LimitsFor(&a)[0]; m.Listed != want {
			t.Errorf("%s with an unknown plan is on the list %q, want %q", tenant, m.Listed, want)
		}
	}
}

// Units stay used when the plan of a client changes, in any order, also when the policy is replaced.
func TestPlansKeepState(t *testing.T) {
	store := mustMemory(t)
	o := planned(policy.Header("X-Plan"))
	first := mustPolicy(t, o)
	o.Earlier = first
	for i, step := range []struct {
		plan      string
		remaining int64
		allowed   bool
	}{{"", 1, true}, {"", 0, true}, {"", 0, false}, {"silver", 7, true}, {"gold", 46, true}, {"free", 0, false}, {"silver", 5, true}, {"platinum", 0, false}, {"gold", 44, true}} {
		p := first
		if i%2 == 1 {
			p = mustPolicy(t, o)
		}
		v := p.Decide(t.Context(), store, &policy.Attributes{Values: planValues{tenant: "x", lines: []string{step.plan}}.named(), TrustPlan: true})
		if v.Allowed() != step.allowed || v.Results[0].Decision.Remaining != step.remaining {
			t.Errorf("step %d with plan %q: %s, want %d left", i, step.plan, v.String(), step.remaining)
		}
		if l := first.LimitsFor(&policy.Attributes{Values: planValues{tenant: "x", lines: []string{step.plan}}.named(), TrustPlan: true})[0].Request.Limit; l != v.Results[0].Request.Limit {
			t.Errorf("step %d: two policies have two limits for the same plan", i)
		}
	}
}

// A caller that names a rule and a key names the plan too.
func TestPlansOfRuleRequests(t *testing.T) {
	for _, deny := range []bool{false, true} {
		o := planned(policy.Header("X-Plan"))
		if o.DenyUnknownPlans = deny; deny {
			o.PlanFrom = nil // only callers name plans
		}
		p := mustPolicy(t, o)
		for plan, want := range map[string]int64{"": 2, "gold": 50, "free": 2, "platinum": 2} {
			v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "r", Key: []string{"a"}, Plan: plan})
			unknown := plan == "platinum"
			if err != nil || v.UnknownPlan != unknown || v.Allowed() == (unknown && deny) {
				t.Errorf("plan %q: %s, %v", plan, v.String(), err)
			} else if v.Allowed() && v.Results[0].Request.Limit.Capacity() != want {
				t.Errorf("plan %q has %v, want %d", plan, v.Results[0].Request.Limit, want)
			}
		}
	}
}

// A descriptor names its plan by one of its entries, and each descriptor of a call has its own.
func TestPlansOfDescriptors(t *testing.T) {
	for _, deny := range []bool{false, true} {
		rule := described("r", 0, "tenant", "plan")
		rule.Key, rule.Limits = []policy.Part{{Source: source.Descriptor, Name: "tenant"}}, daily(2)
		p := mustPolicy(t, policy.Options{
			Rules:    []policy.Rule{rule},
			Plans:    []policy.Plan{{Name: "gold", Limits: map[string][]*sluice.Limit{"r": daily(50)}}},
			PlanFrom: []policy.Part{policy.Header("X-Plan"), {Source: source.Descriptor, Name: "plan"}}, DenyUnknownPlans: deny,
		})
		v := p.DecideDescriptors(t.Context(), &stub{}, "d", []descriptors.Request{hits(1, "tenant=a", "plan=gold"), hits(1, "tenant=a", "plan="), hits(1, "tenant=a", "plan=Gold")})
		if !v.UnknownPlan || v.Allowed() == deny {
			t.Errorf("unknown plans denied %v: %s, the plan is unknown %v", deny, v.String(), v.UnknownPlan)
		}
		for i, want := range []int64{50, 2, 2} {
			if got := v.Descriptors[i].Results[0].Request.Limit.Capacity(); got != want {
				t.Errorf("descriptor %d has %d units, want %d", i, got, want)
			}
		}
		if d := v.Descriptors[2]; d.Allowed == deny {
			t.Errorf("the descriptor with an unknown plan is allowed %v, with unknown plans denied %v", d.Allowed, deny)
		}
		if v := p.DecideDescriptors(t.Context(), &stub{}, "d", []descriptors.Request{hits(1, "tenant=a", "plan=gold")}); v.UnknownPlan || v.Results[0].Plan() != "gold" {
			t.Errorf("a known plan: %s, plan %q", v.String(), v.Results[0].Plan())
		}
	}
}

// Plans that cannot be meant are refused, with the field at fault.
func TestPlansThatDoNotFit(t *testing.T) {
	for field, change := range map[string]func(o *policy.Options){
		"Plans[0].Name":           func(o *policy.Options) { o.Plans[0].Name = "a b" },
		"Plans[1].Name":           func(o *policy.Options) { o.Plans[1].Name = "gold" },
		"Plans[2].Limits[s]":      func(o *policy.Options) { o.Plans[2].Limits = map[string][]*sluice.Limit{"s": daily(1)} },
		"Plans[0].Limits":         func(o *policy.Options) { o.Plans[0].Limits["r"] = append(daily(1), daily(1)...) },
		"Plans[0].Limits[0].Name": func(o *policy.Options) { o.Plans[0].Limits["r"] = perDayNamed("other") },
		"Overrides[1].Plan":       func(o *policy.Options) { o.Rules[0].Overrides[1].Plan = "sliver" },
		"Overrides[1].Limits":     func(o *policy.Options) { o.Rules[0].Overrides[1].Limits = daily(1) },
		"PlanFrom[0]":             func(o *policy.Options) { o.PlanFrom[0] = policy.Query("plan") },
		"PlanFrom[1]":             func(o *policy.Options) { o.PlanFrom = append(o.PlanFrom, policy.Claim("plan")) },
		"DenyUnknownPlans": func(o *policy.Options) {
			o.Plans, o.PlanFrom, o.DenyUnknownPlans, o.Rules[0].Overrides = nil, nil, true, nil
		},
	} {
		o := planned(policy.Header("X-Plan"))
		change(&o)
		_, err := policy.New(o)
		var bad *policy.RuleError
		if !errors.As(err, &bad) || bad.Field != field || bad.Remedy == "" {
			t.Errorf("%s is reported as %v", field, err)
		}
	}
	o := planned(policy.Header("X-Plan").IfRepeated(policy.RepeatedLast))
	if _, err := policy.New(o); err == nil {
		t.Error("a choice among several plans is accepted")
	}
	o = planned(policy.Attribute("plan"))
	if p := mustPolicy(t, o); p.TrustsPlans() {
		t.Error("an attribute, which no client sends, needs trust")
	}
}

func perDayNamed(name string) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit(name, sluice.FixedWindow{Rate: sluice.PerDay(1)})}
}

// BenchmarkPlans decides about a key without plans, with plans that it does not name, and with one that it names.
func BenchmarkPlans(b *testing.B) {
	for _, c := range []struct {
		name, plan string
		plans      bool
	}{{"without", "", false}, {"none", "", true}, {"gold", "gold", true}, {"unknown", "platinum", true}} {
		b.Run(c.name, func(b *testing.B) {
			o := planned(policy.Header("X-Plan"))
			o.Rules = []policy.Rule{{Name: "r", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: perDay(1_000_000)}}
			if o.Plans[0].Limits["r"] = perDay(2_000_000); !c.plans {
				o.Plans, o.PlanFrom = nil, nil
			} else {
				o.Plans = o.Plans[:1]
			}
			p, s := mustPolicy(b, o), &stub{}
			a := &policy.Attributes{Values: values{header: map[string]string{"X-Tenant": "a", "X-Plan": c.plan}}, TrustPlan: true}
			if c.plan == "" {
				a.Values = values{header: map[string]string{"X-Tenant": "a"}}
			}
			b.ReportAllocs()
			for b.Loop() {
				if v := p.Decide(b.Context(), s, a); len(v.Results) != 1 {
					b.Fatalf("a decision has %d results", len(v.Results))
				}
			}
		})
	}
}
