package app

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/modeltest"
)

// modelRules are a budget of tokens for all requests.
const modelRules = `
rules:
  - name: tokens
    match: {path: [/v1/**, /v1beta/**, /openai/**]}
    key: global
    limit: {algorithm: fixed_window, rate: BUDGET/30d, starts: first_request}
    cost: {source: model, estimate: 64}
`

// startModels runs a server in front of a fake service of models.
func startModels(t *testing.T, rules string) (*running, *modeltest.Service) {
	t.Helper()
	service := &modeltest.Service{}
	s := httptest.NewServer(service)
	t.Cleanup(s.Close)
	return start(t, parse(t, free+"upstream: "+s.URL+rules), nil), service
}

// remaining returns what is left of a budget, by the header of a request that costs nothing.
func remaining(t *testing.T, client *http.Client, base string) int64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	_, rest, _ := strings.Cut(res.Header.Get("RateLimit"), ";r=")
	text, _, _ := strings.Cut(rest, ";")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("status %d with the header RateLimit %q: %v", res.StatusCode, res.Header.Get("RateLimit"), err)
	}
	return n
}

// TestBudgetIsExact replays calls in all formats with all faults. What is left is the budget without what was settled, to the
// token, and the budget is not exceeded.
func TestBudgetIsExact(t *testing.T) {
	t.Parallel()
	const callers, each, budget = 64, 12, 100_000
	r, service := startModels(t, strings.ReplaceAll(modelRules, "BUDGET", strconv.Itoa(budget)))
	got := modeltest.Replay(t, r.client, []string{r.URL(Proxy)}, callers, each, false)
	settled, _ := got.Settled(64)
	eventually(t, "the end of all abandoned requests", func() bool { return r.upstream.abandoned.Count() == 0 })
	eventually(t, "the settlement of all calls", func() bool { return remaining(t, r.client, r.URL(Proxy)) == budget-settled })
	billed, calls := service.Billed()
	t.Logf("%d calls passed and %d were denied; %d of %d tokens were settled, and %d billed for %d calls", len(got.Passed), got.Denied, settled, budget, billed, calls)
	if settled > budget || billed > settled || got.Denied == 0 || len(got.Passed) < callers {
		t.Errorf("%d tokens were settled, and %d billed, of %d, with %d calls denied", settled, billed, budget, got.Denied)
	}
}
