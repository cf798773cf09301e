package httplimit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// plannedOptions are a rule of one unit an hour, five with the plan gold, which a claim names.
func plannedOptions() policy.Options {
	return policy.Options{
		Rules:    []policy.Rule{{Name: "r", Key: []policy.Part{policy.Global()}, Limits: hourly(1)}},
		Plans:    []policy.Plan{{Name: "gold", Limits: map[string][]*sluice.Limit{"r": hourly(5)}}},
		PlanFrom: []policy.Part{policy.Claim("plan")},
	}
}

// A decider with plans of a claim needs TrustPlan, also when the policy is replaced, and calls it for each request. Reported requests are
// trusted.
func TestDecidersTrustPlans(t *testing.T) {
	clock := int64(1e6)
	store := storeAt(t, &clock)
	p, err := policy.New(plannedOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store}); err == nil || !strings.Contains(err.Error(), "TrustPlan is missing") {
		t.Errorf("a decider without TrustPlan is made, with the error %v", err)
	}
	plain := ruled(t, store, httplimit.PolicyOptions{}, policy.Rule{Name: "r", Limits: hourly(1)})
	if err := plain.SetPolicy(p); err == nil || !strings.Contains(err.Error(), "TrustPlan is missing") {
		t.Errorf("a decider without TrustPlan gets plans of a claim, with the error %v", err)
	}
	claims := func(r *http.Request, _ string) (string, bool) { return r.Header.Get("X-Verified-Plan"), true }
	d := governed(t, store, httplimit.PolicyOptions{Claim: claims, TrustPlan: func(r *http.Request) bool { return r.Header.Get("X-Own") != "" }}, plannedOptions())
	for header, want := range map[string]int64{"X-Own: yes": 5, "X-Other: yes": 1} {
		if got := d.Decide(get("/", "X-Verified-Plan: gold", header)).Tightest.Limit; got != want {
			t.Errorf("with %s, the limit is %d, want %d", header, got, want)
		}
	}
	q := &httplimit.Report{Method: "GET", Target: "/", Host: "a.example"}
	q.Add("X-Verified-Plan", "gold")
	if _, v := d.DecideReport(t.Context(), q); v.Tightest.Limit != 5 {
		t.Errorf("a reported request has a limit of %d, want 5: %s", v.Tightest.Limit, v.String())
	}
}
