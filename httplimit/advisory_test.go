package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// ruled returns a decider for rules. A rule without a key has one limit for everybody.
func ruled(tb testing.TB, store sluice.Store, o httplimit.PolicyOptions, rules ...policy.Rule) *httplimit.Decider {
	tb.Helper()
	return governed(tb, store, o, policy.Options{Rules: rules})
}

func governed(tb testing.TB, store sluice.Store, o httplimit.PolicyOptions, p policy.Options) *httplimit.Decider {
	tb.Helper()
	for i := range p.Rules {
		if p.Rules[i].Key == nil {
			p.Rules[i].Key = []policy.Part{policy.Global()}
		}
	}
	var err error
	if o.Policy, err = policy.New(p); err != nil {
		tb.Fatal(err)
	}
	o.Store = store
	d, err := httplimit.NewPolicyDecider(o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// hourly returns limits of one window of an hour.
func hourly(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(n)})}
}

// saved writes a file for a test and returns its name.
func saved(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// reply is the response that a client got.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request over a connection.
func send(tb testing.TB, s *httptest.Server, r *http.Request) reply {
	tb.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	r = r.WithContext(tb.Context())
	r.URL.Scheme, r.URL.Host, r.RequestURI = u.Scheme, u.Host, ""
	res, err := s.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(content)}
}

// served starts a server with a handler.
func served(tb testing.TB, h http.Handler) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s
}

// full is a handler that responds with "full" and the request's headers that begin with Sluice or X.
func full(w http.ResponseWriter, r *http.Request) {
	var seen []string
	for name, lines := range r.Header {
		if strings.HasPrefix(name, "Sluice") || strings.HasPrefix(name, "X") {
			seen = append(seen, name+"="+strings.Join(lines, ","))
		}
	}
	slices.Sort(seen)
	fmt.Fprint(w, "full", seen)
}

// A request over the limit is degraded as its rule says.
func TestRequestsAboveTheLimitAreDegraded(t *testing.T) {
	page := saved(t, "busy.html", "<p>{rule} again in {wait} s")
	fallback := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "less of ", r.URL.Path, r.Header["X-Less"])
	})
	for _, c := range []struct {
		name        string
		answer      policy.LimitedAction
		status      int
		contentType string
		body        string
		header      string // X-Why of the response
	}{
		{"a body", policy.LimitedAction{Body: `{"rule":"{rule}","wait":{wait}}`, ContentType: "application/json"}, 200, "application/json", `{"rule":"advisory","wait":3599}`, ""},
		{"a status and headers", policy.LimitedAction{Status: 206, Body: "some", Header: map[string]string{"X-Why": "{rule} {wait}"}}, 206, "text/plain; charset=utf-8", "some", "advisory 3599"},
		{"only a status", policy.LimitedAction{Status: 204}, 204, "", "", ""},
		{"a file", policy.LimitedAction{File: page}, 200, "text/html; charset=utf-8", "<p>advisory again in 3599 s", ""},
		{"another upstream", policy.LimitedAction{Upstream: "http://less", RequestHeader: map[string]string{"X-Less": "{rule}"}}, 200, "text/plain; charset=utf-8", "less of /a[advisory]", ""},
		{"a hint", policy.LimitedAction{}, 200, "text/plain; charset=utf-8", "full[Sluice-Degraded=advisory]", ""},
		{"a hint of its own", policy.LimitedAction{RequestHeader: map[string]string{"x-less": "{wait}"}}, 200, "text/plain; charset=utf-8", "full[X-Less=3599]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := int64(1e6)
			c.answer.Action = policy.Degrade
			d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
				policy.Rule{Name: "advisory", Limits: hourly(1), WhenLimited: c.answer}, policy.Rule{Name: "enforced", Limits: hourly(3)})
			s := served(t, wrap(t, d, httplimit.Options{
				Fallback: func(upstream string) http.Handler {
					if upstream == "http://less" {
						return fallback
					}
					return nil
				},
				OnError: func(_ *http.Request, err error) { t.Error(err) },
			}, http.HandlerFunc(full)))
			for i, want := range []reply{{200, nil, "full[]"}, {c.status, nil, c.body}, {c.status, nil, c.body}, {429, nil, ""}} {
				got := send(t, s, get("/a"))
				if got.status != want.status || want.body != got.body && i < 3 {
					t.Errorf("request %d: %d %q; want %d %q", i, got.status, got.body, want.status, want.body)
				}
				if i == 1 && (got.header.Get("Content-Type") != c.contentType || got.header.Get("X-Why") != c.header || got.header.Get("RateLimit") != `"enforced";r=1;t=3599`) {
					t.Errorf("header %v", got.header)
				}
			}
		})
	}
}

// If an upstream or a file is missing, the degraded request reports an error.
func TestDegradeWithoutWhatItNeeds(t *testing.T) {
	page := saved(t, "busy.txt", "busy")
	var reported []string
	o := httplimit.Options{OnError: func(_ *http.Request, err error) { reported = append(reported, err.Error()) }}
	for _, c := range []struct {
		answer policy.LimitedAction
		status int
		body   string
		want   string
	}{
		{policy.LimitedAction{Upstream: "http://unknown"}, 200, "full[]", `httplimit: rule "advisory": WhenLimited.Upstream "http://unknown" is unknown`},
		{policy.LimitedAction{File: page}, 503, `"title":"Temporarily reduced capacity"`, `httplimit: rule "advisory": WhenLimited.File: `},
	} {
		clock := int64(1e6)
		reported, c.answer.Action = nil, policy.Degrade
		d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "advisory", Limits: hourly(1), WhenLimited: c.answer})
		h := wrap(t, d, o, http.HandlerFunc(full))
		status(h)
		if c.answer.File != "" {
			if err := os.Remove(page); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/"))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || len(reported) != 1 || !strings.HasPrefix(reported[0], c.want) {
			t.Errorf("%d %s, reported %q", w.Code, w.Body, reported)
		}
	}
	w := httptest.NewRecorder()
	err := httplimit.WriteDegraded(w, get("/"), &policy.Verdict{Degrade: &policy.Rule{WhenLimited: policy.LimitedAction{File: page}}})
	if w.Code != 503 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a middleware: status %d, %v", w.Code, err)
	}
}

// A missing file is an error when the rules are loaded, not when a request first needs it.
func TestFilesAreChecked(t *testing.T) {
	big := saved(t, "big", strings.Repeat("x", 1<<20+1))
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file", t.TempDir(): "is not a regular file", big: "give a file of at most 1048576",
	} {
		p, err := policy.New(policy.Options{Rules: []policy.Rule{{
			Name: "r", Key: []policy.Part{policy.Global()}, Limits: hourly(1), WhenLimited: policy.LimitedAction{File: file},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: &recordingStore{}}); err == nil ||
			!strings.HasPrefix(err.Error(), `httplimit: rule "r": WhenLimited.File: `) || !strings.Contains(err.Error(), want) {
			t.Errorf("file %q should be refused with the rule's name, got %v", file, err)
		}
	}
}

// A marked request is allowed, with a header for the services behind.
func TestMarkedRequestsHaveAHeader(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
		policy.Rule{Name: "advisory", Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Mark}},
		policy.Rule{Name: "own", Limits: hourly(2), WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Scavenger": "{rule}"}}},
	)
	s := served(t, wrap(t, d, httplimit.Options{}, http.HandlerFunc(full)))
	for i, want := range []string{"full[]", "full[Sluice-Marked=advisory]", "full[Sluice-Marked=advisory]"} {
		if got := send(t, s, get("/")); got.status != 200 || got.body != want {
			t.Errorf("request %d: %d %s; want %s", i, got.status, got.body, want)
		}
	}
}

// Clients can neither mark requests nor prevent a mark. They can try other spellings, or name the
// header in Connection, so that a proxy behind removes it.
func TestClientsCannotMark(t *testing.T) {
	clock := int64(1e6)
	advisory := policy.Rule{Name: "advisory", Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Mark}}
	own := policy.Rule{Name: "own", Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Degrade, RequestHeader: map[string]string{"X-Less": "yes", "X_Own.Name": "{rule}"}}}
	backend := served(t, http.HandlerFunc(full))
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	s := served(t, wrap(t, ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, advisory, own), httplimit.Options{}, behind))
	for i, want := range []string{"full[X-Other=1]", "full[Sluice-Marked=advisory X-Less=yes X-Other=1 X_own.name=own]"} {
		r := get("/")
		r.Header = http.Header{
			"Sluice-Marked": {"no"}, "Sluice_Marked": {"no"}, "sLUICE-degraded": {"no"}, "X_less": {"no"}, "X-Less": {"no", "no"}, "X-Other": {"1"},
			"Sluice.Marked": {"no"}, "Sluice!Marked": {"no"}, "X.less": {"no"}, "X~less": {"no"}, "X_own.name": {"no"}, "X-Own-Name": {"no"},
			"Connection": {"Sluice-Marked, x-less", "X_Less"},
		}
		if got := send(t, s, r); got.body != want {
			t.Errorf("request %d: %s; want %s", i, got.body, want)
		}
	}
}

// A handler gets its own request: headers removed from it are still in the original request.
func TestMarkingCopiesTheRequest(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "r", Limits: hourly(9)})
	var inside *http.Request
	h := wrap(t, d, httplimit.Options{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { inside = r }))
	r := get("/", "Sluice-Marked: x", "Connection: close, Sluice-Marked")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if r.Header.Get("Sluice-Marked") != "x" || inside.Header.Get("Sluice-Marked") != "" || inside.Header.Get("Connection") != "close" {
		t.Errorf("the original has %v, the handler got %v", r.Header, inside.Header)
	}
	plain := get("/", "X-Other: x")
	h.ServeHTTP(httptest.NewRecorder(), plain)
	if inside != plain {
		t.Error("a request with nothing to remove was copied")
	}
}

// Trusted proxies may mark requests, and rules can match the mark.
func TestTrustedHopsMark(t *testing.T) {
	clock := int64(1e6)
	marked := true
	rule := policy.Rule{Name: "marked", Match: policy.Match{Marked: &marked}, Limits: hourly(1)}
	for trusted, want := range map[bool]string{true: "[200 full[Sluice-Marked=edge] 429 ]", false: "[200 full[] 200 full[]]"} {
		d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{TrustMarks: func(*http.Request) bool { return trusted }}, rule)
		h := wrap(t, d, httplimit.Options{OnDenied: func(w http.ResponseWriter, _ *http.Request, _ *policy.Verdict) {
			w.WriteHeader(http.StatusTooManyRequests)
		}}, http.HandlerFunc(full))
		var got []string
		for range 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, get("/", "Sluice-Marked: edge"))
			got = append(got, fmt.Sprint(w.Code, " ", w.Body))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("trusted %v: %v; want %s", trusted, got, want)
		}
	}
}

// Marks may also be in the headers that rules set in place of the default header, and in no others.
func TestMarksOfTrustedProxies(t *testing.T) {
	clock := int64(1e6)
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies(t, "10.0.0.0/8")})
	if err != nil {
		t.Fatal(err)
	}
	marked := true
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{ClientIP: ip, TrustMarks: ip.TrustsPeer},
		policy.Rule{Name: "marked", Match: policy.Match{Marked: &marked}, Always: true},
		policy.Rule{Name: "marks", Limits: hourly(1000), WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"x-excess": "yes"}}},
		policy.Rule{Name: "degrades", Limits: hourly(1000), WhenLimited: policy.LimitedAction{Action: policy.Degrade, RequestHeader: map[string]string{"X-Less": "yes"}}},
	)
	for header, want := range map[string]bool{
		"Sluice-Marked: a": true, "X-Excess: yes": true, "X-EXCESS: ": true, "X-Less: yes": false, "Sluice-Degraded: a": false, "X-Other: a": false, "X_Excess: yes": false,
	} {
		for peer, trusted := range map[string]bool{"10.0.0.1:1": true, "[::ffff:10.0.0.1]:1": true, "192.0.2.1:1": false, "[::1]:1": false, "@": false, "": false} {
			r := get("/", header, "X-Forwarded-For: 10.0.0.2")
			r.RemoteAddr = peer
			if v := d.Decide(r); v.Allowed() == (want && trusted) || ip.TrustsPeer(r) != trusted {
				t.Errorf("%s of %s: %s", header, peer, v.String())
			}
		}
	}
	if (*httplimit.ClientIP)(nil).TrustsPeer(get("/")) {
		t.Error("a nil ClientIP trusts a peer")
	}
}

// During congestion, marked traffic is dropped first: demand exceeds the shared limit, and clients within
// their own share notice nothing.
func TestMarkedTrafficIsDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		g, err := gate.New(store, gate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		marked := true
		d := governed(t, store, httplimit.PolicyOptions{}, policy.Options{
			Pressure: g.Pressure,
			Rules: []policy.Rule{
				{
					Name: "fair", Key: []policy.Part{policy.Header("X-Client")}, WhenLimited: policy.LimitedAction{Action: policy.Mark},
					Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(2)})},
				},
				{Name: "all", Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(20)})}},
				{
					Name: "scavengers", Match: policy.Match{Marked: &marked, Pressure: 0.8, PressureOf: "all"},
					Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(1)})},
				},
			},
		})
		h := wrap(t, d, httplimit.Options{Gate: g}, nothing)
		send := func(client string) bool {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, get("/", "X-Client: "+client))
			return w.Code == 200
		}
		// Without congestion, marked requests are allowed.
		for range 10 {
			if !send("greedy") {
				t.Fatal("a marked request was dropped without congestion")
			}
		}
		<-time.After(time.Minute)
		passed := map[string]int{}
		for i := range 6000 { // a minute; greedy sends 98 of 100 a second
			client := "greedy"
			if i%50 == 0 {
				client = "modest"
			}
			if send(client) {
				passed[client]++
			}
			<-time.After(10 * time.Millisecond)
		}
		if passed["modest"] != 120 || passed["greedy"] < 60 || passed["greedy"] > 400 {
			t.Errorf("allowed: %v; want all 120 modest requests", passed)
		}
	})
}

// A refusal has the response that its rule sets.
func TestRefusalsHaveTheResponseOfTheirRule(t *testing.T) {
	page := saved(t, "denied.json", `{"error":{"code":"{rule}"},"again":{wait}}`)
	for _, c := range []struct {
		name   string
		answer policy.LimitedAction
		want   reply
	}{
		{"by default", policy.LimitedAction{}, reply{429, http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}}, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r"]}` + "\n"}},
		{"with a status", policy.LimitedAction{Status: 420}, reply{420, nil, ""}},
		{"with headers", policy.LimitedAction{Header: map[string]string{"X-Again": "in {wait} s, says {rule}", "Cache-Control": "private"}, Body: "no"}, reply{429, http.Header{"X-Again": {"in 3599 s, says r"}, "Cache-Control": {"private"}, "Content-Type": {"text/plain; charset=utf-8"}}, "no"}},
		{"with only headers", policy.LimitedAction{Header: map[string]string{"X-Again": "{wait}"}}, reply{429, http.Header{"X-Again": {"3599"}, "Content-Type": {"application/problem+json"}}, ""}},
		{"with a body", policy.LimitedAction{Body: `{"a":{"wait":{wait},"{rule}":1},"{other}":{}}`, ContentType: "application/json"}, reply{429, http.Header{"Content-Type": {"application/json"}}, `{"a":{"wait":3599,"r":1},"{other}":{}}`}},
		{"with a file", policy.LimitedAction{File: page, Status: 503}, reply{503, http.Header{"Content-Type": {"application/json"}}, `{"error":{"code":"r"},"again":3599}`}},
	} {
		clock := int64(1e6)
		s := served(t, wrap(t, ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "r", Limits: hourly(1), WhenLimited: c.answer}), httplimit.Options{}, nothing))
		send(t, s, get("/"))
		got := send(t, s, get("/"))
		if got.status != c.want.status || c.want.body != "" && got.body != c.want.body || got.header.Get("Retry-After") != "3599" {
			t.Errorf("%s: the refusal is %+v, want %+v", c.name, got, c.want)
		}
		for name, lines := range c.want.header {
			if got.header.Get(name) != lines[0] {
				t.Errorf("%s: %s is %q", c.name, name, got.header.Get(name))
			}
		}
	}
}

// If its file can no longer be read, a refusal is a problem document instead.
func TestRejectionWithoutItsFile(t *testing.T) {
	page := saved(t, "denied.txt", "no")
	clock := int64(1e6)
	var reported []error
	o := httplimit.Options{OnError: func(_ *http.Request, err error) { reported = append(reported, err) }}
	h := wrap(t, ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "r", Limits: hourly(1), WhenLimited: policy.LimitedAction{File: page}}), o, nothing)
	status(h)
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, get("/"))
	if w.Code != 429 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("without its file the refusal is %d %v, want a problem document with 429", w.Code, w.Header())
	}
	if len(reported) != 1 || !errors.Is(reported[0], fs.ErrNotExist) || !strings.HasPrefix(reported[0].Error(), `httplimit: rule "r": WhenLimited.File: `) {
		t.Errorf("reported %q", reported)
	}
}

// A client on a deny list gets status 403, and the body does not hold its key.
func TestListedIsForbidden(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(t, ruled(t, store, httplimit.PolicyOptions{}, policy.Rule{
		Name: "r", Key: []policy.Part{policy.Header("X-User")}, Limits: hourly(9), DenyKeys: [][]string{{"mallory"}},
	}), httplimit.Options{}, nothing)
	for user, want := range map[string]int{"alice": 200, "mallory": 403} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, get("/", "X-User: "+user))
		if w.Code != want || strings.Contains(w.Body.String(), user) {
			t.Errorf("user %s: %d %s, want %d without the key", user, w.Code, w.Body, want)
		}
	}
}
