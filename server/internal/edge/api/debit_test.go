package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/policy"
)

const budgets = `
rules:
  - name: tokens
    key: "header:X-User"
    limits:
      - {algorithm: token_bucket, rate: 10/h}
      - {algorithm: fixed_window, rate: 100/d, starts: first_request}
  - {name: jobs, key: global, limit: {algorithm: concurrency, max: 1}}
  - {name: slow, key: global, limit: {algorithm: leaky_bucket, rate: 1/s}}
  - {name: tried, key: global, limit: {algorithm: token_bucket, rate: 10/h}, candidate: [{algorithm: leaky_bucket, rate: 1/s}]}
`

// A debit charges all limits of a rule whatever is left, once for each Idempotency-Key, and answers what is left.
func TestDebitTakesWhatIsNotThere(t *testing.T) {
	seen := 0
	s := serve(t, budgets, func(o *Options) { o.OnVerdict = func(*policy.Verdict, time.Duration) { seen++ } })
	debit := func(cost, key string, allowed bool, remaining int64) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/debit", strings.NewReader(`{"rule": "tokens", "key": "ann", "cost": `+cost+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		if d := s.send(r); d.Allowed != allowed || *d.Remaining != remaining || len(d.Limits) != 2 {
			t.Fatalf("a debit of %s: %+v, want allowed %v, %d left", cost, d.decision, allowed, remaining)
		}
	}
	debit("4", "one", true, 6)
	debit("4", "one", true, 6) // repeated
	debit("9", "two", false, 0)
	if seen != 2 {
		t.Errorf("%d verdicts were observed, want 2", seen)
	}
	if d := s.call("/v1/peek", `{"rule": "tokens", "key": "ann", "cost": 1}`); d.Allowed || *d.RetryAfterMS < 1_400_000 {
		t.Errorf("three units are owed, and one more is needed: %+v", d.decision)
	}
	if d := s.call("/v1/peek", `{"rule": "tokens", "key": "ann", "cost": 1}`); *d.Limits[1].Remaining != 87 {
		t.Errorf("the second limit: %+v", d.Limits[1])
	}
	if d := s.call("/v1/debit?status=429", `{"rule": "tokens", "key": "ann"}`); d.status != http.StatusTooManyRequests {
		t.Errorf("status %d", d.status)
	}
}

// Each debit of a batch is charged by itself. What cannot be debited is a problem, and charges nothing.
func TestCallsDebitInBatches(t *testing.T) {
	s := serve(t, budgets, nil)
	got := s.batch("/v1/debit", `{"rule": "tokens", "key": "ann", "cost": 12}`, `{"path": "/"}`, `{"rule": "jobs"}`, `{"rule": "slow"}`,
		`{"rule": "tokens", "key": "ben", "cost": 3}`, `{"rule": "tokens", "key": "ann", "cost": 0}`, `{"rule": "tried", "cost": 3}`).Answers
	for i, field := range map[int]string{1: "rule", 2: "rule", 3: "rule", 5: "cost"} {
		if p := got[i].Problem; p == nil || p.Field != field || p.Status != http.StatusBadRequest || p.Remedy == "" {
			t.Errorf("answer %d: %+v, want a problem of %s", i, p, field)
		}
	}
	if got[0].Decision.Allowed || *got[0].Decision.Remaining != 0 || !got[4].Decision.Allowed || *got[4].Decision.Remaining != 7 {
		t.Errorf("debits of twelve and of three: %+v, %+v", got[0].Decision, got[4].Decision)
	}
	if d := got[6].Decision; d == nil || !d.Allowed || *d.Remaining != 7 {
		t.Errorf("a rule whose candidate cannot owe units: %+v", got[6])
	}
	s.want(true, "/v1/check", `{"rule": "jobs"}`)
}
