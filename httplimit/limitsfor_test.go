package httplimit_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// Each request is decided by the limits that LimitsFor returns for it, or else by Limits.
func TestLimitsFor(t *testing.T) {
	clock := int64(1)
	limit := func(name string, n int64) *sluice.Limit {
		return sluice.MustLimit(name, sluice.FixedWindow{Rate: sluice.PerHour(n)})
	}
	plans := map[string][]*sluice.Limit{
		"paid":   {limit("api", 100)},
		"strict": {limit("api", 10), limit("other", 1)},
		"none":   {},
		"broken": {limit("api", 10), nil},
		"zero":   {new(sluice.Limit)},
	}
	d := keyed(t, httplimit.KeyOptions{
		Store: storeAt(t, &clock), Limits: []*sluice.Limit{limit("api", 10)}, Key: []policy.Part{policy.Header("X-User")},
		LimitsFor: func(r *http.Request) []*sluice.Limit { return plans[r.Header.Get("X-Plan")] },
	})
	for i, step := range []struct {
		plan           string
		allowed        bool
		limit, remains int64
	}{
		{"", true, 10, 9},
		{"none", true, 10, 8},
		{"paid", true, 100, 97}, // used units stay used
		{"strict", true, 1, 0},
		{"strict", false, 1, 0},
		{"", true, 10, 5},
		{"paid", true, 100, 94},
	} {
		v := d.Decide(get("/", "X-User: a", "X-Plan: "+step.plan))
		if v.Allowed() != step.allowed || v.Tightest.Limit != step.limit || v.Tightest.Remaining != step.remains || v.Err != nil {
			t.Errorf("step %d, plan %q: %v, want %+v", i, step.plan, &v, step)
		}
	}
	for _, plan := range []string{"broken", "zero"} {
		v := d.Decide(get("/", "X-User: b", "X-Plan: "+plan))
		var bad *sluice.RequestError
		if v.Allowed() || v.Reason != sluice.ReasonNever || !errors.As(v.Err, &bad) {
			t.Errorf("plan %q: %v, %v", plan, &v, v.Err)
		}
	}
	// A key that is given by its values has Limits.
	v, err := d.Rules().DecideRule(t.Context(), policy.RuleRequest{Key: []string{"c"}})
	if err != nil || v.Tightest.Limit != 10 {
		t.Errorf("DecideRule: %v, %v", &v, err)
	}
}

// Without Limits, LimitsFor must find some.
func TestOnlyLimitsFor(t *testing.T) {
	clock := int64(1)
	paid := hourly(100)
	d := keyed(t, httplimit.KeyOptions{
		Store: storeAt(t, &clock), Key: []policy.Part{policy.Header("X-User")},
		LimitsFor: func(r *http.Request) []*sluice.Limit {
			if r.Header.Get("X-User") == "paying" {
				return paid
			}
			return nil
		},
	})
	if v := d.Decide(get("/", "X-User: paying")); !v.Allowed() || v.Tightest.Remaining != 99 {
		t.Errorf("with a plan: %v", &v)
	}
	var bad *sluice.RequestError
	if v := d.Decide(get("/", "X-User: other")); v.Allowed() || !errors.As(v.Err, &bad) {
		t.Errorf("without a plan: %v, %v", &v, v.Err)
	}
	var unknown *policy.RuleRequestError
	if err := d.Rules().Reset(t.Context(), "", "paying"); !errors.As(err, &unknown) {
		t.Errorf("Reset: %v", err)
	}
}

func TestLimitsForIsRefusedInPolicies(t *testing.T) {
	rule := policy.Rule{
		Name: "r", Key: []policy.Part{policy.Global()}, Limits: hourly(1), LimitsFor: func(*policy.Attributes) []*sluice.Limit { return nil },
	}
	_, err := policy.New(policy.Options{Rules: []policy.Rule{rule}})
	var bad *policy.RuleError
	if !errors.As(err, &bad) || bad.Field != "LimitsFor" {
		t.Errorf("a policy: %v", err)
	}
	if _, err := policy.Single(rule); err != nil {
		t.Error(err)
	}
}
