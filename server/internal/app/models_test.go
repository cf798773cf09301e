package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestUnboundedOutputsOwe replays calls that do not bound their output. The budget is exceeded by no more than the answers in
// flight, and nothing passes while it is in debt.
func TestUnboundedOutputsOwe(t *testing.T) {
	t.Parallel()
	const callers, each, budget = 64, 12, 60_000
	for _, overdraw := range []string{"", "    overdraw: true\n"} {
		r, service := startModels(t, strings.ReplaceAll(modelRules, "BUDGET", strconv.Itoa(budget))+overdraw)
		got := modeltest.Replay(t, r.client, []string{r.URL(Proxy)}, callers, each, true)
		settled, beyond := got.Settled(64)
		eventually(t, "the end of all abandoned requests", func() bool { return r.upstream.abandoned.Count() == 0 })
		most := budget + callers*beyond
		if overdraw != "" {
			most += 10_000 // the call that overdraws
		}
		billed, calls := service.Billed()
		t.Logf("%d calls passed and %d were denied; %d of %d tokens were settled, and %d billed for %d calls", len(got.Passed), got.Denied, settled, budget, billed, calls)
		if settled > most || got.Denied == 0 || len(got.Passed) < callers {
			t.Errorf("%d tokens were settled of %d, which is more than %d with the answers in flight", settled, budget, most)
		}
		if left := max(0, budget-settled); overdraw == "" && settled <= budget {
			eventually(t, "the settlement of all calls", func() bool { return remaining(t, r.client, r.URL(Proxy)) == left })
		}
	}
}

// TestLeavingCancels lets clients leave streams. With on_leave: cancel, the request to the service ends at once, its estimate
// stays charged, and its lease is free. With finish, the answer is awaited, and its usage is charged.
func TestLeavingCancels(t *testing.T) {
	t.Parallel()
	const calls = `
  - {name: at-once, match: {method: POST}, key: global, limit: {algorithm: concurrency, max: 1, ttl: 10m}}
`
	for _, c := range []struct {
		leave, path string
		used        int64
		end         string
	}{
		{"cancel", "/v1/messages", 400, `format="anthropic-messages"`},
		{"cancel", "/v1beta/models/g:streamGenerateContent?alt=sse", 3, `format="gemini"`},
		{"finish", "/v1/messages", 300, `format="anthropic-messages"`},
	} {
		rules := strings.ReplaceAll(modelRules, "BUDGET", "100000")
		rules = strings.ReplaceAll(rules, "{source: model, ", "{source: model, on_leave: "+c.leave+", ")
		r, service := startModels(t, rules+calls)
		left := make(chan struct{})
		canceled := make(chan bool, 1)
		service.Step = func(q *http.Request, token int) {
			if token != 3 {
				return
			}
			select {
			case <-left:
				canceled <- false
			case <-q.Context().Done():
				canceled <- true
			}
		}
		call := modeltest.Call{Path: c.path, Body: `{"max_tokens":400,"stream":true}`, Output: 300, Most: 400, Fault: "leave", Stream: true}
		if c.end == `format="gemini"` {
			call.Body = `{"generationConfig":{"maxOutputTokens":400}}`
		}
		input := modeltest.InputOf(call.Body)
		if c.used == 400 {
			input = (int64(len(call.Body)) + 3) / 4
		}
		status, body, err := call.Do(t.Context(), r.client, r.URL(Proxy))
		if status != http.StatusOK || err != nil {
			t.Fatalf("%s: status %d, %v: %s", c.path, status, err, body)
		}
		if c.leave == "finish" {
			eventually(t, "an abandoned request", func() bool { return r.upstream.abandoned.Count() == 1 })
			close(left)
		}
		if got := <-canceled; got != (c.leave == "cancel") {
			t.Errorf("%s with on_leave: %s: the request to the service was canceled: %v", c.path, c.leave, got)
		}
		eventually(t, "the settlement", func() bool { return 100_000-remaining(t, r.client, r.URL(Proxy)) == input+c.used })
		eventually(t, "the free lease", func() bool { return r.leftFor(http.MethodPost, "/") == 1 })
		call.Fault = ""
		service.Step = nil
		if status, body, err = call.Do(t.Context(), r.client, r.URL(Proxy)); status != http.StatusOK || err != nil {
			t.Errorf("%s with on_leave: %s: the next call gets status %d, %v: %s", c.path, c.leave, status, err, body)
		}
		want := map[string]string{"cancel": "broken", "finish": "reported"}[c.leave]
		eventually(t, c.path+" counted as "+want, func() bool {
			got := r.figure(`sluice_model_answers_total{end="` + want + `",` + c.end + `}`)
			return got != "0" && !strings.HasPrefix(got, "no ")
		})
	}
}

// TestDenialsOfModelsKeepTheConnection sends calls on one connection, of which some are denied after their body was read. The
// next call on the connection is decided and settled as any other.
func TestDenialsOfModelsKeepTheConnection(t *testing.T) {
	t.Parallel()
	r, _ := startModels(t, strings.ReplaceAll(modelRules, "BUDGET", "1000"))
	c, in := r.connect(Proxy)
	for i := range 400 { // a deadline that is too early ends a connection now and then
		most := 10
		if i%2 == 0 {
			most = 5000
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil { // on a busy machine, all calls take longer
			t.Fatal(err)
		}
		body := `{"max_tokens":` + strconv.Itoa(most) + `}`
		_, err := io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Output: 0\r\nX-Fault: 400\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil) //nolint:bodyclose // it is read to its end, on a connection of the test
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		want := http.StatusBadRequest // of the service
		if most == 5000 {
			want = http.StatusTooManyRequests
		}
		if res.StatusCode != want || res.Close {
			t.Errorf("call %d gets status %d, not %d; the connection ends: %v", i, res.StatusCode, want, res.Close)
		}
	}
}

// TestModelsPage runs the first configuration of docs/models.md in front of a service of each format.
func TestModelsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\nversion: 1\nupstream: {url: https://api.openai.com, preserve_host: false}\n")
	rules, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page begins with another configuration")
	}
	r, service := startModels(t, "\n"+rules)
	var want int64
	for _, path := range append(modeltest.Formats, "/v1/embeddings") {
		body := `{"model":"a","max_tokens":10,"max_output_tokens":10,"input":"some text"}`
		status, text := r.send(Proxy, http.MethodPost, path, body, "X-Tenant", "acme", modeltest.Output, "7")
		if want += modeltest.InputOf(body) + 7; status.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, status.StatusCode, text)
		}
	}
	if status, _ := r.send(Proxy, http.MethodPost, modeltest.Formats[0], "{}"); status.StatusCode != http.StatusBadRequest {
		t.Errorf("a call without a tenant gets status %d", status.StatusCode)
	}
	for format, calls := range map[string]string{
		"openai-chat": "2", "openai-completions": "1", "openai-responses": "1", "openai-embeddings": "1", "anthropic-messages": "1", "gemini": "2",
	} {
		if got := r.figure(`sluice_model_answers_total{end="reported",format="` + format + `"}`); got != calls {
			t.Errorf("%s: %s answers reported their usage, not %s", format, got, calls)
		}
	}
	if billed, _ := service.Billed(); billed != want {
		t.Errorf("the service billed %d tokens, not %d", billed, want)
	}
}
