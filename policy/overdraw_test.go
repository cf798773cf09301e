package policy_test

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
)

// overdrawing is a rule that overdraws its limits. Its cost is the cost of the attributes.
func overdrawing(limits ...*sluice.Limit) policy.Rule {
	return policy.Rule{Name: "tokens", Key: []policy.Part{policy.Global()}, Limits: limits, Overdraw: true}
}

// A rule with Overdraw admits any cost while a unit is left, of all its limits, and then refuses even a cost of 0. Settling
// gives back what was not used.
func TestOverdrawTakesTheWholeCost(t *testing.T) {
	minute, day := sluice.MustLimit("minute", sluice.TokenBucket{Rate: sluice.PerHour(100)}), sluice.MustLimit("day", sluice.FixedWindow{Rate: sluice.PerDay(1000), Opened: true})
	rule := overdrawing(minute, day)
	rule.Candidate = []*sluice.Limit{sluice.MustLimit("leaky", sluice.LeakyBucket{Rate: sluice.PerSecond(1)})}
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}}), mustMemory(t)
	ask := func(cost int64) policy.Verdict { return p.Decide(t.Context(), store, &policy.Attributes{Cost: cost}) }
	if v := ask(99); !v.Allowed() || v.Err != nil {
		t.Fatalf("99 of 100: %s", v.String())
	}
	v := ask(700)
	if !v.Allowed() || v.Tightest.Remaining != 0 {
		t.Fatalf("700, and one is left: %s", v.String())
	}
	for _, cost := range []int64{1, 5000, policy.NoCost} {
		if denied := ask(cost); denied.Allowed() || denied.TightestLimit != v.TightestLimit {
			t.Errorf("a cost of %d in debt: %s", cost, denied.String())
		}
	}
	for i := range v.Results[:2] {
		if err := store.Settle(t.Context(), v.Results[i].Charge(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if again := ask(1); again.Allowed() || again.Tightest.Remaining != 0 {
		t.Errorf("all of the minute is used: %s", again.String())
	}
	q := policy.RuleRequest{Rule: "tokens", Cost: 5000, Debit: true}
	if debited, err := p.DecideRule(t.Context(), store, q); err != nil || debited.Allowed() || debited.Results[1].Decision.Remaining != 0 {
		t.Errorf("a debit by the rule: %v, %v", debited.String(), err)
	}
}

// A rule with Overdraw needs limits that can owe units, and a debit is not an overdraw too.
func TestOverdrawNeedsLimitsThatOwe(t *testing.T) {
	window := sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(5)})
	debits := policy.Rule{
		Name: "tokens", Limits: []*sluice.Limit{window}, Overdraw: true,
		Match: policy.Match{Descriptor: &descriptors.Pattern{Domain: "edge", Entries: []descriptors.PatternEntry{{Key: "user"}}, Debit: true}},
	}
	override := overdrawing(window)
	override.Key = []policy.Part{policy.Header("X-User")}
	override.Overrides = []policy.Override{{Key: []string{"ann"}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerDay(5)})}}}
	large := overdrawing(window)
	large.Cost = policy.Cost{Units: 50}
	for name, c := range map[string]struct {
		rule policy.Rule
		want string
	}{
		"a leaky bucket":                    {overdrawing(sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerDay(5)})), "Overdraw is set, and leaky_bucket"},
		"a concurrency limit":               {overdrawing(window, sluice.MustLimit("at-once", sluice.Concurrency{Max: 5})), "cannot owe units"},
		"an override":                       {override, "cannot owe units"},
		"a debit":                           {debits, "Overdraw is set, and the rule debits descriptors"},
		"a cost of more than the limit has": {large, ""},
	} {
		_, err := policy.New(policy.Options{Rules: []policy.Rule{c.rule}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
