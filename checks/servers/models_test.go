package servers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/internal/modeltest"
)

// remainingTokens returns what is left of a budget, by the header of a request that costs nothing.
func (s *server) remainingTokens() int64 {
	s.tb.Helper()
	res, err := s.client.Get(s.URLs["proxy"] + "/v1/models")
	if err != nil {
		s.tb.Fatal(err)
	}
	defer res.Body.Close()
	_, rest, _ := strings.Cut(res.Header.Get("RateLimit"), ";r=")
	text, _, _ := strings.Cut(rest, ";")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.tb.Fatalf("status %d with the header RateLimit %q: %v", res.StatusCode, res.Header.Get("RateLimit"), err)
	}
	return n
}

// TestBudgetIsExactOverServers replays calls of 64 callers at two servers over one Redis, with all faults. In the end, what is
// left is the budget without what was settled, to the token.
func TestBudgetIsExactOverServers(t *testing.T) {
	t.Parallel()
	const callers, each, budget = 64, 8, 100_000
	r := redistest.Start(t)
	for name, hybrid := range map[string]string{"exact": "", "hybrid": "    hybrid: {sync: 100ms, stranded: 5%}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &modeltest.Service{}
			upstream := httptest.NewServer(service)
			t.Cleanup(upstream.Close)
			config := fmt.Sprintf("store: {redis: {addresses: ['%s'], prefix: models-%s, deadline: 20s}}\nupstream: %s\n", r.Addr(), name, upstream.URL) + `on_store_error: deny
rules:
  - name: tokens
    match: {path: [/v1/**, /v1beta/**, /openai/**]}
    key: global
    limit: {algorithm: fixed_window, rate: ` + strconv.Itoa(budget) + `/30d}
    cost: {source: model, estimate: 64}
`
			a, b := serve(t, config+hybrid), serve(t, config+hybrid)
			got := modeltest.Replay(t, &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}, Timeout: process.Patience}, []string{a.URLs["proxy"], b.URLs["proxy"]}, callers, each, false)
			for _, s := range []*server{a, b} {
				process.Eventually(t, "the end of all abandoned requests", func() bool { return s.figure("sluice_abandoned_requests") == "0" })
				s.drain() // it returns what it has in hand
			}
			settled, _ := got.Settled(64)
			billed, calls := service.Billed()
			t.Logf("%d calls passed and %d were denied; %d of %d tokens were settled, and %d billed for %d calls", len(got.Passed), got.Denied, settled, budget, billed, calls)
			if settled > budget || billed > settled || got.Denied == 0 || len(got.Passed) < callers {
				t.Errorf("%d tokens were settled, and %d billed, of %d, with %d calls denied", settled, billed, budget, got.Denied)
			}
			if left := serve(t, config).remainingTokens(); left != budget-settled {
				t.Errorf("%d tokens are left, not %d", left, budget-settled)
			}
		})
	}
}
