package httplimit_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/modeltest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// models is a middleware with one budget of tokens, in front of a service.
type models struct {
	*httptest.Server
	store   sluice.Store
	policy  *policy.Policy
	service *modeltest.Service

	mu   sync.Mutex
	ends []string
}

// budget is what the limit of models has.
const budget = 1_000_000

// startModels starts a middleware with a cost in front of a proxy to a service; nil is a fake service of models.
func startModels(t *testing.T, cost policy.Cost, service http.Handler, more ...policy.Rule) *models {
	t.Helper()
	cost.Source = policy.CostModel
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &models{store: store, service: &modeltest.Service{}}
	m.policy, err = policy.New(policy.Options{Rules: append([]policy.Rule{{
		Name: "tokens", Key: []policy.Part{policy.Global()}, Cost: cost,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(budget)})},
	}}, more...)})
	if err != nil {
		t.Fatal(err)
	}
	decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: m.policy, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := httplimit.New(decider, httplimit.Options{OnAnswer: func(_ *http.Request, format string, end httplimit.AnswerEnd) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ends = append(m.ends, format+" "+string(end))
	}})
	if err != nil {
		t.Fatal(err)
	}
	if service == nil {
		service = m.service
	}
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		Transport: &http.Transport{DisableCompression: true},
	}
	m.Server = httptest.NewServer(limiter.Wrap(proxy))
	t.Cleanup(m.Close)
	return m
}

// used returns how much of the budget is used.
func (m *models) used(t *testing.T) int64 {
	t.Helper()
	v := m.policy.Peek(t.Context(), m.store, &policy.Attributes{Path: "/"})
	return budget - v.Results[0].Decision.Remaining
}

// end returns how the last answer ended, when all have.
func (m *models) end(t *testing.T) string {
	t.Helper()
	m.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ends) == 0 {
		return ""
	}
	return m.ends[len(m.ends)-1]
}

// raw sends the bytes of a request, and returns the status and the body of the answer.
func (m *models) raw(t *testing.T, request string) (status int, body string) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", m.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// post returns the bytes of a request. Each header ends with a line break.
func post(path, header, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nX-Output: 40\r\n%sContent-Length: %d\r\n\r\n%s", path, header, len(body), body)
}

const chat = "/v1/chat/completions"

// Requests whose cost could be understated are refused with 400, and take nothing; other spellings cost what they should.
func TestModelRequests(t *testing.T) {
	t.Parallel()
	zipped := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	plain := `{"model":"a","max_tokens":100}`
	pad := strings.Repeat(" ", 2000)
	for name, c := range map[string]struct {
		request string
		status  int
		used    int64 // with a service that reports the usage
	}{
		"plain":                     {post(chat, "", plain), 200, 46},
		"wrong type":                {post(chat, "Content-Type: text/plain\r\n", plain), 200, 46},
		"form type":                 {post(chat, "Content-Type: application/x-www-form-urlencoded\r\n", plain), 200, 46},
		"no JSON":                   {post(chat, "", "max_tokens=5"), 400, 0},
		"cut JSON":                  {post(chat, "", plain[:len(plain)-1]), 400, 0},
		"two texts":                 {post(chat, "", plain+plain), 400, 0},
		"twice":                     {post(chat, "", `{"max_tokens":1,"max_tokens":100}`), 400, 0},
		"twice in other letters":    {post(chat, "", `{"max_tokens":1,"Max_Tokens":100}`), 400, 0},
		"twice, escaped":            {post(chat, "", `{"max_tokens":1,"max\u005ftokens":100}`), 400, 0},
		"model twice":               {post(chat, "", `{"model":"a","max_tokens":1,"model":"b"}`), 400, 0},
		"negative":                  {post(chat, "", `{"max_tokens":-5}`), 400, 0},
		"fraction":                  {post(chat, "", `{"max_tokens":1.5}`), 400, 0},
		"text":                      {post(chat, "", `{"max_tokens":"100"}`), 400, 0},
		"compressed":                {post(chat, "Content-Encoding: gzip\r\n", zipped(plain)), 400, 0},
		"compressed unsaid":         {post(chat, "", zipped(plain)), 400, 0},
		"identity":                  {post(chat, "Content-Encoding: identity\r\n", plain), 200, 46},
		"chunked":                   {"POST " + chat + " HTTP/1.1\r\nHost: a\r\nX-Output: 40\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + plain[:16] + "\r\ne\r\n" + plain[16:] + "\r\n0\r\n\r\n", 200, 46},
		"chunked and large":         {"POST " + chat + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + pad + "\r\n1e\r\n" + plain + "\r\n0\r\n\r\n", 400, 0},
		"HTTP/1.0":                  {"POST " + chat + " HTTP/1.0\r\nX-Output: 40\r\nContent-Length: 30\r\n\r\n" + plain, 200, 46},
		"two limits":                {post(chat, "", `{"max_completion_tokens":1,"max_tokens":30}`), 200, 8 + 1},
		"in UTF-8":                  {post(chat, "Content-Type: application/json; charset=\"UTF-8\"\r\n", plain), 200, 46},
		"in ASCII":                  {post(chat, "Content-Type: application/json ;Charset = us-ascii; x=y\r\n", plain), 200, 46},
		"in UTF-7":                  {post(chat, "Content-Type: application/json; charset=utf-7\r\n", plain), 400, 0},
		"in UTF-7, after UTF-8":     {post(chat, "Content-Type: application/json; charset=utf-8; CHARSET=\"utf-7\"\r\n", plain), 400, 0},
		"in UTF-7, in two lines":    {post(chat, "Content-Type: application/json\r\nContent-Type: application/json; charset=utf-7\r\n", plain), 400, 0},
		"in UTF-7, encoded":         {post(chat, "Content-Type: application/json; charset*=utf-8''utf-7\r\n", plain), 400, 0},
		"in UTF-7, escaped":         {post(chat, "Content-Type: application/json; charset=\"utf-\\7\"\r\n", plain), 400, 0},
		"in HZ, larger than read":   {post(chat, "Content-Type: application/json; charset=hz-gb-2312\r\n", plain+pad), 400, 0},
		"zero is not a limit":       {post(chat, "", `{"max_tokens":0}`), 200, 3},
		"null is not a limit":       {post(chat, "", `{"max_tokens":null}`), 200, 3 + 40},
		"trailing slash":            {post(chat+"/", "", plain), 200, 46},
		"other case":                {post("/V1/Chat/Completions", "", plain), 200, 46},
		"encoded":                   {post("/v1/chat%2Fcompletions", "", plain), 200, 46},
		"encoded twice":             {post("/v1/chat%252Fcompletions", "", plain), 200, 46},
		"dots":                      {post("/v1/x/../chat/completions", "", plain), 200, 46},
		"two formats":               {post("/v1/embeddings/..%2fchat%2fcompletions", "", plain), 200, 46},
		"two formats, resolved":     {post("/v1/messages%2f..%2f..%2fv1/responses/x/%2e%2e", "", plain), 200, 46},
		"resolved to another":       {post("/v1/chat/completions/%2e%2e/%2e%2e/embeddings", "", plain), 200, 46},
		"empty segment":             {post("/v1/chat//completions", "", plain), 400, 0},
		"parameters of a segment":   {post("/v1/embeddings;/chat/completions", "", plain), 400, 0},
		"unknown path":              {post("/v1/other", "", plain), 200, 8 + 100},
		"unknown path, no JSON":     {post("/v1/other", "", "a=b&c"), 400, 0}, // the service refuses it
		"no body":                   {"POST " + chat + " HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400, 0},
		"list":                      {"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", 200, 0},
		"websocket":                 {"GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n", 200, 4096},
		"larger than what is read":  {post(chat, "", plain+pad), 200, 2030/5 + 40},
		"large and no JSON is read": {post(chat, "", pad+"x"), 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startModels(t, policy.Cost{Model: &policy.ModelCost{Body: 1000}}, nil)
			status, body := m.raw(t, c.request)
			end := m.end(t)
			if got := m.used(t); status != c.status || got != c.used {
				t.Errorf("status %d and %d tokens, want %d and %d; the answer ended as %q: %s", status, got, c.status, c.used, end, body)
			}
		})
	}
}

// A path that names a cheap model, and a dear one once a service resolves it, is refused. So is one that may name none.
func TestModelsOfPaths(t *testing.T) {
	t.Parallel()
	const gemini = `{"generationConfig":{"maxOutputTokens":100}}`
	for target, c := range map[string]struct {
		status int
		used   int64
	}{
		"/openai/deployments/cheap/chat/completions":                                 {200, 46},
		"/openai/deployments/dear/chat/completions":                                  {200, 4600},
		"/OpenAI/Deployments/Dear/chat/completions":                                  {200, 4600},
		"/openai//deployments/dear/chat/completions":                                 {400, 0},
		"/openai/x/../deployments/dear/chat/completions":                             {400, 0},
		"/openai/deployments/cheap/../dear/chat/completions":                         {400, 0},
		"/openai/deployments/cheap/%2e%2e/dear/chat/completions":                     {400, 0},
		"/openai/deployments/cheap%2f..%2fdear/chat/completions":                     {400, 0},
		"/openai/deployments/cheap/..;/dear/chat/completions":                        {400, 0},
		"/openai/deployments/cheap/..;x/dear/chat/completions":                       {400, 0},
		"/openai/deployments/dear;/chat/completions":                                 {400, 0},
		"/openai/deployments/cheap/chat/completions/../../../../../chat/completions": {400, 0},
		"/v1beta/models/cheap:generateContent":                                       {200, 48},
		"/v1beta/models/dear:generateContent":                                        {200, 4800},
		"/v1beta/models/dear:generateContent/x/%2e%2e":                               {200, 4800},
		"/v1beta/models/dear:generateContent;x":                                      {200, 4800},
		"/v1beta/models/cheap:generateContent/..;/dear:generateContent":              {200, 4800},
		"/v1beta/models/cheap%252f%252e%252e%252fdear:generateContent":               {400, 0},
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			m := startModels(t, policy.Cost{Model: &policy.ModelCost{Prices: []policy.ModelPrice{
				{Model: "cheap*", Input: 1e6, Output: 1e6}, {Model: "*", Input: 1e8, Output: 1e8},
			}}}, nil)
			body := `{"model":"cheap","max_tokens":100}`
			if strings.HasPrefix(target, "/v1beta") {
				body = gemini
			}
			status, text := m.raw(t, post(target, "", body))
			m.end(t)
			if got := m.used(t); status != c.status || got != c.used {
				t.Errorf("status %d and %d units, want %d and %d: %s", status, got, c.status, c.used, text)
			}
		})
	}
}

// A body by which a service may choose another model has the highest price.
func TestModelsOfLists(t *testing.T) {
	t.Parallel()
	for body, price := range map[string]int64{
		`{"model":"cheap","max_tokens":100}`:                                                1,
		`{"model":"cheap","models":["dear"],"max_tokens":100}`:                              100,
		`{"model":"cheap","fallbacks":[{"cheap":["dear"]}],"max_tokens":100}`:               100,
		`{"model":"cheap","tools":[{"models":["dear"],"fallbacks":null}],"max_tokens":100}`: 1,
	} {
		m := startModels(t, policy.Cost{Model: &policy.ModelCost{Prices: []policy.ModelPrice{
			{Model: "cheap*", Input: 1e6, Output: 1e6}, {Model: "*", Input: 1e8, Output: 1e8},
		}}}, nil)
		status, text := m.raw(t, post(chat, "", body))
		m.end(t)
		if got, want := m.used(t), price*(modeltest.InputOf(body)+40); status != 200 || got != want {
			t.Errorf("%s: status %d and %d units, want %d: %s", body, status, got, want, text)
		}
	}
}

// The body reaches the service byte for byte, however it came, also if the client waits for the answer 100.
func TestModelBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	m := startModels(t, policy.Cost{Model: &policy.ModelCost{BytesPerToken: 1000}}, nil)
	for _, size := range []int{10, 4 << 10, 4<<10 + 1, 1<<20 - 30, 1 << 20, 1<<20 + 1, 3 << 20} {
		body := fmt.Sprintf(`{"max_tokens":5,"prompt":%q}`, strings.Repeat("é", size/2))
		for _, wait := range []bool{false, true} {
			for _, length := range []int64{int64(len(body)), -1} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL+chat, struct{ io.Reader }{strings.NewReader(body)})
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set(modeltest.Fault, "silent") // so that it costs little
				if r.ContentLength = length; wait {
					r.Header.Set("Expect", "100-continue")
				}
				fits := length >= 0 || len(body) <= 1<<20
				res, err := m.Client().Do(r)
				if err != nil && !fits && len(body) > 2<<20 {
					continue // the answer came while the client wrote, and then the connection ended
				}
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if fits != (res.StatusCode == http.StatusOK) || fits && !m.service.Got(body) {
					t.Errorf("%d bytes with length %d: status %d, and the service got them: %v", len(body), length, res.StatusCode, m.service.Got(body))
				}
			}
		}
	}
}

// Models that a rule denies by its attribute are refused in every spelling, and a body that cannot be read too.
func TestModelAllowList(t *testing.T) {
	t.Parallel()
	small := policy.Rule{
		Name: "small", Always: true, WhenLimited: policy.LimitedAction{Status: 403, Body: "only small models"},
		Match: policy.Match{Unless: []policy.Match{{Attributes: []policy.ValueMatch{{Name: policy.ModelAttribute, OneOf: []string{"small"}}}}}},
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{chat, `{"model":"small","max_tokens":5}`, 200},
		{chat, `{"model":"SMALL","max_tokens":5}`, 200},
		{chat, `{"model":" small ","max_tokens":5}`, 200},
		{chat, `{"model":"large","max_tokens":5}`, 403},
		{chat, `{"max_tokens":5}`, 403},
		{chat, `{"model":"small","max_tokens":5,"x":"` + strings.Repeat("x", 2<<20) + `"}`, 403},
		{"/openai/deployments/SMALL/chat/completions", `{"model":"large","max_tokens":5}`, 200},
		{"/openai/deployments/large/chat/completions", `{"model":"small","max_tokens":5}`, 403},
		{"/v1beta/models/small:generateContent", `{"model":"large"}`, 200},
		{"/v1beta/models/large:generateContent", `{"model":"small"}`, 403},
		{"/v1/images", `{"model":"small"}`, 200},
		{"/v1/images", `{"model":"large"}`, 403},
		{"/v1/images", `a=b`, 403},
	} {
		m := startModels(t, policy.Cost{}, nil, small)
		status, body := m.raw(t, post(c.path, "", c.body))
		if status != c.status || status == 403 && body != "only small models" {
			t.Errorf("%s %.60s: status %d, not %d: %s", c.path, c.body, status, c.status, body)
		}
	}
}

// A request that another rule denies first gets its answer before it has sent its body.
func TestDenialsBeforeTheBody(t *testing.T) {
	t.Parallel()
	m := startModels(t, policy.Cost{}, nil)
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "closed", Always: true}, {
		Name: "tokens", Key: []policy.Part{policy.Global()}, Cost: policy.Cost{Source: policy.CostModel},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(budget)})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	m.policy = p
	limiter, err := httplimit.New(mustDecider(t, m), httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	decider := mustDecider(t, m)
	for name, h := range map[string]http.Handler{
		"middleware": limiter.Wrap(http.NotFoundHandler()),
		"decider": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v := decider.Decide(r)
			_ = httplimit.WriteDenied(w, r, &v)
		}),
	} {
		s := httptest.NewServer(h)
		m.Server = s
		status, _ := m.raw(t, "POST "+chat+" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		if status != http.StatusTooManyRequests {
			t.Errorf("%s: status %d", name, status)
		}
		s.Close()
	}
}

// Decide reads the body for the policy, and leaves it to the next reader.
func TestDecideLeavesTheBody(t *testing.T) {
	m := startModels(t, policy.Cost{}, nil)
	decider, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: m.policy, Store: m.store})
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"model":"a","max_tokens":100}`
	r := httptest.NewRequest(http.MethodPost, chat, strings.NewReader(body))
	r.Header.Set("Connection", "X-Unused")
	v := decider.Decide(r)
	got, err := io.ReadAll(r.Body)
	if err != nil || string(got) != body || v.Results[0].Request.Cost != 108 {
		t.Errorf("a request for %d tokens leaves the body %q, %v", v.Results[0].Request.Cost, got, err)
	}
	reported, v := decider.DecideReport(t.Context(), &httplimit.Report{Method: "POST", Target: chat, Host: "a", ContentLength: 400})
	if v.Results[0].Request.Cost != 100+4096 || reported.Body != http.NoBody {
		t.Errorf("a reported request costs %d, not the estimate", v.Results[0].Request.Cost)
	}
	broken := httptest.NewRequest(http.MethodPost, chat, io.MultiReader(strings.NewReader(body[:9]), errorReader{}))
	if v := decider.Decide(broken); v.Allowed() || !errors.As(v.Refused, new(*policy.AttributeError)) {
		t.Errorf("a request whose body breaks off is not refused: %+v", v)
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("it broke") }

// The bodies that rules read hold a bounded number of bytes together, of which a client takes half. Beyond it, bodies are
// not read, and cost the estimate.
func TestBodiesReadAheadAreBounded(t *testing.T) {
	t.Parallel()
	const size, most = 32 << 20, 256 << 20
	m := startModels(t, policy.Cost{Estimate: 7, Model: &policy.ModelCost{Body: size}}, nil)
	limiter, err := httplimit.New(mustDecider(t, m), httplimit.Options{Context: true})
	if err != nil {
		t.Fatal(err)
	}
	var cost int64
	h := limiter.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		v, _ := policy.FromContext(r.Context())
		cost = v.Results[0].Request.Cost
	}))
	costs := func(peer string) int64 {
		r := httptest.NewRequest(http.MethodPost, chat, strings.NewReader(`{"max_tokens":1}`))
		r.RemoteAddr = peer + ":1"
		h.ServeHTTP(httptest.NewRecorder(), r)
		return cost
	}
	var all sync.WaitGroup
	broken := make(chan struct{})
	for i := range most / size {
		reads := make(chan struct{})
		all.Go(func() {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, chat, &waitingReader{reads: reads, until: broken})
			r.ContentLength, r.RemoteAddr = size, "192.0.2.1:1"
			if i >= most/size/2 {
				r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i)
			}
			h.ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest {
				t.Errorf("a body that breaks off gets status %d", w.Code)
			}
		})
		<-reads
		if got := costs("192.0.2.1"); i == most/size/2-1 && got != 4+7 {
			t.Errorf("a client whose bodies hold half of the room gets a cost of %d, not the estimate", got)
		}
	}
	if got := costs("198.51.100.1"); got != 4+7 {
		t.Errorf("while bodies hold all there is, a request costs %d, not the estimate", got)
	}
	close(broken)
	all.Wait()
	if got := costs("192.0.2.1"); got != 4+1 {
		t.Errorf("after all others have ended, a request costs %d, so its body was not read", got)
	}
}

// waitingReader is a body that breaks off in the end.
type waitingReader struct {
	reads chan struct{}
	until chan struct{}
}

func (r *waitingReader) Read([]byte) (int, error) {
	close(r.reads)
	<-r.until
	return 0, errors.New("it broke")
}

func mustDecider(t *testing.T, m *models) *httplimit.Decider {
	t.Helper()
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: m.policy, Store: m.store})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Two middlewares read the same request and answer, and each settles its own limit.
func TestNestedMiddlewaresOfModels(t *testing.T) {
	t.Parallel()
	inner, outer := startModels(t, policy.Cost{}, nil), startModels(t, policy.Cost{Model: &policy.ModelCost{Format: "openai-chat"}}, nil)
	var h http.Handler = inner.service
	for _, m := range []*models{inner, outer} {
		limiter, err := httplimit.New(mustDecider(t, m), httplimit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h = limiter.Wrap(h)
	}
	r := httptest.NewRequest(http.MethodPost, chat, strings.NewReader(`{"model":"a","max_tokens":100}`))
	r.Header.Set(modeltest.Output, "40")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if a, b := inner.used(t), outer.used(t); a != 46 || b != 46 {
		t.Errorf("the inner limit has %d tokens used, and the outer one %d, not 46", a, b)
	}
}

// A chunk of a stream costs no allocation, so memory does not grow with the stream.
func TestChunksTakeNoMemory(t *testing.T) {
	chunk := []byte(modelChunk)
	for name, cost := range costs {
		h := modelLimiter(t, cost).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			if got := testing.AllocsPerRun(1000, func() { _, _ = w.Write(chunk) }); got != 0 {
				t.Errorf("%s: a chunk costs %v allocations", name, got)
			}
		}))
		h.ServeHTTP(&plainWriter{http.Header{}}, chatRequest(1000, true))
	}
}
