package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a file that may fail or block.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	err   error
	block chan struct{} // closed to let writes go on; nil for none
}

func (o *output) Write(p []byte) (int, error) {
	if o.block != nil {
		<-o.block
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	return o.text.Write(p)
}

// scene is a log of the decisions of a policy.
type scene struct {
	*Log
	out     *output
	decider *policy.Decider
}

func newScene(t *testing.T, change func(*Options, *output)) *scene {
	t.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "per-user", Key: []policy.Part{policy.Header("X-User")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 1})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{out: new(output)}
	if s.decider, err = policy.NewDecider(p, store); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Out: s.out, Sample: 1, Fingerprint: func(sluice.Key) string { return "f00d" },
		ClientIP: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.1") },
		Failed:   func(err error) { t.Errorf("a write failed: %v", err) },
	}
	if change != nil {
		change(&o, s.out)
	}
	s.Log = New(o)
	s.now = func() time.Time { return time.Date(2026, 11, 22, 10, 0, 0, 123456000, time.UTC) }
	t.Cleanup(func() { s.Close() })
	return s
}

// header are the headers of a request, as a policy reads them.
type header http.Header

func (h header) Header(name string) (string, bool) {
	v := h[name]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}
func (header) Cookie(string) (string, bool) { return "", false }
func (header) Query(string) (string, bool)  { return "", false }

// decide decides about a request and logs the decision.
func (s *scene) decide(t *testing.T, r *http.Request) {
	t.Helper()
	v := s.decider.Decide(t.Context(), &policy.Attributes{Method: r.Method, Path: r.URL.EscapedPath(), Values: header(r.Header)})
	s.Observe("proxy", r, &v, 1500*time.Microsecond)
}

// request is one of a client that chooses what it can.
func request(user string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, `/a%20b/"quoted"?token=secret`, nil)
	r.Header.Set("X-User", user)
	r.Header.Set("Referer", "https://a.example/x?token=secret")
	r.Header.Set("User-Agent", "agent\" 200 -\n127.0.0.1 forged \x1b[31m")
	return r
}

func TestLinesInJSON(t *testing.T) {
	s := newScene(t, nil)
	for range 2 {
		s.decide(t, request("mallory"))
	}
	v := s.decider.Decide(t.Context(), &policy.Attributes{Method: "GET", Path: "/", Values: header{"X-User": {"bob"}}})
	s.Observe("rls", nil, &v, 0)
	s.Close()
	const prefix = `{"time":"2026-11-22T10:00:00.123456Z","edge":"proxy","client_ip":"192.0.2.1","method":"GET","host":"example.com","path":"/a%20b/%22quoted%22",`
	want := prefix + `"action":"allow","allowed":true,"rule":"per-user","limit":"per-user","key":"f00d","cost":1,"remaining":0,"duration_us":1500}` + "\n" +
		prefix + `"action":"deny","allowed":false,"status":429,"reason":"limited","rule":"per-user","limit":"per-user","key":"f00d","cost":1,"remaining":0,"retry_after_ms":N,"duration_us":1500}` + "\n" +
		`{"time":"2026-11-22T10:00:00.123456Z","edge":"rls","action":"allow","allowed":true,"rule":"per-user","limit":"per-user","key":"f00d","cost":1,"remaining":0,"duration_us":0}` + "\n"
	got := regexp.MustCompile(`"retry_after_ms":\d+`).ReplaceAllString(s.out.text.String(), `"retry_after_ms":N`)
	if got != want {
		t.Errorf("the log has\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(s.out.text.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s is not JSON", line)
		}
	}
	if strings.Contains(got, "mallory") || strings.Contains(got, "secret") {
		t.Error("the log shows a key or a secret")
	}
}

// combined is the combined format, as log analysers read it, with what follows.
var combined = regexp.MustCompile(`^(\S+) (\S+) (\S+) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\S+) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)" action=(\S+) rule=(\S+) remaining=(\S+) wait=(\S+) duration=(\S+)$`)

// A line in the combined format says what the request was, and shows no key and no secret.
func TestCombinedLinesShowNoKey(t *testing.T) {
	s := newScene(t, func(o *Options, _ *output) { o.Combined = true })
	for range 2 {
		s.decide(t, request("mallory"))
	}
	s.Close()
	lines := strings.Split(strings.TrimSuffix(s.out.text.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("the log has %d lines:\n%s", len(lines), s.out.text.String())
	}
	for i, want := range []struct{ status, action, wait string }{{"200", "allow", "0.000"}, {"429", "deny", "3600."}} {
		m := combined.FindStringSubmatch(lines[i])
		if m == nil {
			t.Fatalf("%s is not in the combined format", lines[i])
		}
		if m[1] != "192.0.2.1" || m[4] != "22/Nov/2026:10:00:00 +0000" || m[5] != "GET /a%20b/%22quoted%22 HTTP/1.1" || m[6] != want.status ||
			m[8] != "https://a.example/x" || m[10] != want.action || m[11] != "per-user" || !strings.HasPrefix(m[13], want.wait[:1]) {
			t.Errorf("the line is %q", m[1:])
		}
	}
	if text := s.out.text.String(); strings.Contains(text, "secret") || strings.Contains(text, "mallory") || strings.ContainsAny(text, "\x1b") {
		t.Errorf("the log shows a secret, or control characters: %s", text)
	}
}

// A request that has waited has a line with the time of its decision, and with its wait.
func TestLinesOfRequestsThatWaited(t *testing.T) {
	for format, want := range map[bool]string{false: `"time":"2026-11-22T09:59:58.123456Z".*"delay_ms":2000`, true: `22/Nov/2026:09:59:58 .* wait=2.000`} {
		s := newScene(t, func(o *Options, _ *output) { o.Combined = format })
		s.Observe("proxy", request("bob"), &policy.Verdict{Waited: 2 * time.Second}, time.Millisecond)
		s.Close()
		if line := s.out.text.String(); !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("the line is %s, want one with %s", line, want)
		}
	}
}

// A line has the time of a charge within the decision, although the program was interrupted between the charge and the line.
func TestLinesHaveTheTimeOfTheCharge(t *testing.T) {
	for _, c := range []struct {
		before time.Duration // the line
		want   string
	}{{400 * time.Millisecond, "09:59:59.723456"}, {500 * time.Millisecond, "09:59:59.623456"}, {501 * time.Millisecond, "10:00:00.123456"}, {-time.Millisecond, "10:00:00.123456"}} {
		s := newScene(t, nil)
		at := s.now().Add(-c.before).UnixMicro()
		v := policy.Verdict{Results: []policy.LimitResult{{}, {Decision: sluice.Decision{Allowed: true, Receipt: sluice.Receipt{At: at}}}}}
		s.Observe("proxy", request("bob"), &v, 500*time.Millisecond)
		s.Close()
		if line := s.out.text.String(); !strings.Contains(line, `"time":"2026-11-22T`+c.want) {
			t.Errorf("a charge %v before the line of a decision that took 500ms: the line is %s, want the time %s", c.before, line, c.want)
		}
	}
}

// Lines have the status that the client gets.
func TestLinesHaveTheClientsStatus(t *testing.T) {
	limit := sluice.MustLimit("a", sluice.FixedWindow{Rate: sluice.PerDay(1)})
	rule := func(a policy.LimitedAction) *policy.Rule { return &policy.Rule{Name: "a", WhenLimited: a} }
	missing := policy.Header("X-User")
	for _, c := range []struct {
		v        policy.Verdict
		json     string // empty for a status that is not known
		combined string
	}{
		{policy.Verdict{}, "", "200"},
		{policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonLimited, Rule: rule(policy.LimitedAction{}), TightestLimit: limit}, "429", "429"},
		{policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonMissingKey, Rule: rule(policy.LimitedAction{}), Missing: &missing}, "400", "400"},
		{policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonListed, Rule: rule(policy.LimitedAction{})}, "403", "403"},
		{policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNoRule}, "403", "403"},
		{policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonStoreError, Rule: rule(policy.LimitedAction{})}, "503", "503"},
		{policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonLimited, Rule: rule(policy.LimitedAction{Status: 402})}, "402", "402"},
		{policy.Verdict{Action: policy.Degrade, Degrade: rule(policy.LimitedAction{Action: policy.Degrade, Status: 302})}, "302", "302"},
		{policy.Verdict{Action: policy.Degrade, Degrade: rule(policy.LimitedAction{Action: policy.Degrade, Body: "full"})}, "200", "200"},
		{policy.Verdict{Action: policy.Degrade, Degrade: rule(policy.LimitedAction{Action: policy.Degrade})}, "", "200"},
	} {
		x := logged{verdict: &c.v, edge: "proxy", request: request("bob")}
		var line struct{ Status *int }
		if err := json.Unmarshal(x.appendJSON(nil), &line); err != nil {
			t.Fatal(err)
		}
		if (line.Status != nil) != (c.json != "") || line.Status != nil && fmt.Sprint(*line.Status) != c.json {
			t.Errorf("%v: the line has the status %v, want %q", &c.v, line.Status, c.json)
		}
		if m := combined.FindStringSubmatch(strings.TrimSpace(string(x.appendCombined(nil)))); len(m) < 7 || m[6] != c.combined {
			t.Errorf("%v: %q, want %s", &c.v, m, c.combined)
		}
	}
}

// A call of gRPC that the proxy refuses has the status 200 of HTTP, and a status of gRPC. At other edges the answer goes to
// another program.
func TestStatusOfCalls(t *testing.T) {
	denied := func(reason sluice.Reason) *policy.Verdict {
		return &policy.Verdict{Action: policy.Deny, Reason: reason}
	}
	for _, c := range []struct {
		edge, contentType string
		http2             bool
		v                 *policy.Verdict
		json, combined    string
	}{
		{"proxy", "application/grpc", true, denied(sluice.ReasonLimited), `"status":200,"grpc_status":8,`, `" 200 - .* grpc=8$`},
		{"proxy", "application/grpc+proto", true, denied(sluice.ReasonNoRule), `"status":200,"grpc_status":7,`, `" 200 - .* grpc=7$`},
		{"proxy", "application/grpc", true, &policy.Verdict{}, `"allowed":true,"duration_us":0}`, `" 200 - .* duration=0.000000$`},
		{"proxy", "application/grpc", false, denied(sluice.ReasonLimited), `"status":429,"reason"`, `" 429 - .* duration=0.000000$`},
		{"proxy", "application/json", true, denied(sluice.ReasonLimited), `"status":429,"reason"`, `" 429 - .* duration=0.000000$`},
		{"auth", "application/grpc", true, denied(sluice.ReasonLimited), `"status":429,"reason"`, `" 429 - .* duration=0.000000$`},
	} {
		r := httptest.NewRequest(http.MethodPost, "https://example.com/shop.Orders/Create", http.NoBody)
		r.Header.Set("Content-Type", c.contentType)
		if c.http2 {
			r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
		}
		x := logged{verdict: c.v, edge: c.edge, request: r}
		if line := string(x.appendJSON(nil)); !strings.Contains(line, c.json) || !json.Valid([]byte(line)) {
			t.Errorf("%+v: the line as JSON is %s", c, line)
		}
		if line := strings.TrimSpace(string(x.appendCombined(nil))); !regexp.MustCompile(c.combined).MatchString(line) {
			t.Errorf("%+v: the combined line is %s", c, line)
		}
	}
}

// A disk that hangs delays no decision. The lines that are not written are counted.
func TestBlockedDisk(t *testing.T) {
	block := make(chan struct{})
	s := newScene(t, func(_ *Options, out *output) { out.block = block })
	const decisions = 20_000
	for range decisions {
		s.decide(t, request("mallory"))
	}
	lost := s.Lost()
	if lost == 0 {
		t.Error("no line is lost, so the memory is not bounded")
	}
	close(block)
	s.Close()
	if got := uint64(strings.Count(s.out.text.String(), "\n")); got+s.Lost() != decisions {
		t.Errorf("%d lines are written and %d lost, of %d", got, s.Lost(), decisions)
	}
	s.decide(t, request("mallory")) // after the end
	if s.Lost() != lost+1 {
		t.Error("a decision after the end is not counted")
	}
}

// Lines that a full disk does not take are counted as lost, and the failure is reported.
func TestFailingDisk(t *testing.T) {
	var failures []error
	s := newScene(t, func(o *Options, out *output) {
		out.err = errors.New("no space left on device")
		o.Failed = func(err error) { failures = append(failures, err) }
	})
	for range 10 {
		s.decide(t, request("mallory"))
	}
	s.Close()
	if s.Lost() != 10 || len(failures) == 0 {
		t.Errorf("%d lines are lost, %v", s.Lost(), failures)
	}
}

// A sample of a tenth logs about a tenth.
func TestSamplesHaveTheirShare(t *testing.T) {
	s := newScene(t, func(o *Options, _ *output) { o.Sample = 0.1 })
	const decisions = 5000
	for i := range decisions {
		s.decide(t, request(fmt.Sprint(i)))
	}
	s.Close()
	if got := strings.Count(s.out.text.String(), "\n"); got < decisions/20 || got > decisions/5 {
		t.Errorf("%d of %d decisions are logged", got, decisions)
	}
}

// The reader of a pipe takes nothing. The program can stop nevertheless.
func TestCloseDoesNotWaitForAnOutputThatBlocks(t *testing.T) {
	out := &output{block: make(chan struct{})}
	l := New(Options{Out: out, Sample: 1})
	l.patience = time.Millisecond
	l.add([]byte("a line\n"))
	if l.Close() {
		t.Error("the output blocks, and all is written")
	}
	close(out.block)
	l.patience = time.Minute
	if !l.Close() || out.text.String() != "a line\n" {
		t.Errorf("the output goes on, and has %q", out.text.String())
	}
}
