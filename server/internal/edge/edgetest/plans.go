package edgetest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// bearer returns a token with claims, which nobody has signed.
func bearer(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return "Bearer " + part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + ".c2ln"
}

// ReportedPlans checks that a gateway is believed when it reports a plan, once and in its spelling. Everything else
// never leads to the numbers of a plan: several values, other spellings and unknown names. It is refused if the file
// wants that.
//
// The argument open starts an edge over rules. It returns a function that reports a GET of /t with headers in pairs,
// and returns the status of a denial, or the header RateLimit-Policy of an answer.
func ReportedPlans(t *testing.T, open func(rules string) (report func(header ...string) string)) {
	t.Helper()
	const gold, own, unknown, refused = `"tenants";q=50;`, `"tenants";q=5;`, "unknown", "400"
	for from, reports := range map[string][]struct {
		header []string
		want   string
	}{
		"header:X-Plan": {
			{nil, own},
			{[]string{"x-plan", "gold"}, gold},
			{[]string{"x-plan", "trial"}, own},
			{[]string{"x-plan", ""}, own},
			{[]string{"x-plan", "Gold"}, unknown},
			{[]string{"x-plan", "gold", "x-plan", "gold"}, unknown},
			{[]string{"x-plan", "trial", "x-plan", "gold"}, unknown},
			{[]string{"x-plan", "gold", "X-Plan", "trial"}, unknown},
			{[]string{"x-plan", "gold, trial"}, unknown},
			{[]string{"x_plan", "gold"}, unknown},
			{[]string{"x-plan", "trial", "x_plan", "gold"}, unknown},
			{[]string{"x-plan", "gold", "x_plan", "trial"}, unknown},
			{[]string{"x-plan", "gold", "connection", "x-plan"}, refused},
			{[]string{"x-plans", "gold", "plan", "gold"}, own},
		},
		"claim:plan": {
			{[]string{"authorization", bearer(`{"plan": "gold"}`)}, gold},
			{[]string{"authorization", bearer(`{"plan": "platinum"}`)}, unknown},
			{[]string{"authorization", bearer(`{"plan": ["gold"]}`), "x-plan", "gold"}, own},
			{[]string{"authorization", bearer(`{"plan": "gold"}`), "authorization", bearer(`{"plan": "gold"}`)}, unknown},
		},
	} {
		for unknownPlan, answer := range map[string]string{"rule": own, "deny": "403"} {
			report := open(fmt.Sprintf(`plans: {gold: {tenants: {rate: 50/d}}, trial: {}}
plan_from: %q
unknown_plan: %s
rules: [{name: tenants, match: {path: /t}, key: "header:X-Tenant", limit: {algorithm: token_bucket, rate: 5/d}}]
`, from, unknownPlan))
			for i, r := range reports {
				want := strings.Replace(r.want, unknown, answer, 1)
				if got := report(append([]string{"x-tenant", fmt.Sprint("t", i)}, r.header...)...); !strings.HasPrefix(got, want) {
					t.Errorf("%s, unknown_plan %s: a report with %q gets %s, want %s", from, unknownPlan, r.header, got, want)
				}
			}
		}
	}
}
