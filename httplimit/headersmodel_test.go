package httplimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// OpenAI's headers show the tightest limit of requests and of tokens, and neither prices nor calls in flight.
func TestHeadersOfOpenAI(t *testing.T) {
	of := func(cost policy.Cost, d sluice.Decision) policy.LimitResult {
		r := result(sluice.MustLimit("l", sluice.FixedWindow{Rate: sluice.PerMinute(10_000)}), d)
		r.Rule = &policy.Rule{Name: "r", Cost: cost}
		return r
	}
	constant := policy.Cost{Source: policy.CostConstant}
	tokens := policy.Cost{Source: policy.CostModel, Model: &policy.ModelCost{}}
	money := policy.Cost{Source: policy.CostModel, Model: &policy.ModelCost{Prices: []policy.ModelPrice{{Model: "*"}}}}
	calls := result(sluice.MustLimit("calls", sluice.Concurrency{Max: 2}), sluice.Decision{Allowed: true, Limit: 2, Remaining: 1})
	calls.Rule = &policy.Rule{Name: "calls", Cost: constant}
	h := make(http.Header)
	headers(t, httplimit.HeaderOptions{Profile: httplimit.ProfileOpenAI}).Set(h, verdict(
		0,
		of(constant, sluice.Decision{Allowed: true, Limit: 60, Remaining: 59, ResetAfter: time.Second}),
		of(constant, sluice.Decision{Allowed: true, Limit: 500, Remaining: 7, ResetAfter: 6 * time.Minute}),
		of(tokens, sluice.Decision{Allowed: true, Limit: 10_000, Remaining: 1234, ResetAfter: 120*time.Millisecond - 1}),
		of(money, sluice.Decision{Allowed: true, Limit: 50, Remaining: 2}),
		calls,
	))
	want := map[string]string{
		"X-RateLimit-Limit-Requests": "500", "X-RateLimit-Remaining-Requests": "7", "X-RateLimit-Reset-Requests": "6m0s",
		"X-RateLimit-Limit-Tokens": "10000", "X-RateLimit-Remaining-Tokens": "1234", "X-RateLimit-Reset-Tokens": "120ms",
	}
	for name, value := range want {
		if got := h.Get(name); got != value {
			t.Errorf("%s is %q, not %q", name, got, value)
		}
	}
	if len(h) != len(want) {
		t.Errorf("there are other headers: %v", h)
	}
}
