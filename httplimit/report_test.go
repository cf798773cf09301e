package httplimit_test

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// reported returns a report of a GET, with headers written as "Name: value".
func reported(target string, lines ...string) *httplimit.Report {
	q := &httplimit.Report{Method: http.MethodGet, Target: target, Host: "a.example", RemoteAddr: "192.0.2.1"}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		q.Add(name, value)
	}
	return q
}

// The size of a reported body is the number in its header.
func TestReportedSizes(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "bytes", Key: []policy.Part{policy.Global()}, Limits: hourly(1000), Cost: policy.Cost{Source: policy.CostRequestBytes, Max: 1000}})
	q := reported("/", "Content-Length: 110")
	if _, v := d.DecideReport(t.Context(), q); len(v.Results) != 1 || v.Results[0].Request.Cost != 110 {
		t.Errorf("a report of 110 bytes should cost 110: %+v", v)
	}
}

// A gateway passes a request on as it came. So a reported request is refused if a service may read it
// differently than the rules do, in shadow too.
func TestReportsAreOneLine(t *testing.T) {
	clock := int64(1e6)
	d := governed(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Options{Shadow: true, Rules: []policy.Rule{
		{Name: "user", Key: []policy.Part{policy.Header("X-User")}, Limits: hourly(1 << 30)},
	}})
	with := func(change func(q *httplimit.Report)) *httplimit.Report {
		q := reported("/")
		change(q)
		return q
	}
	for _, c := range []struct {
		q    *httplimit.Report
		want string // of the problem
	}{
		{reported("/"), ""},
		{reported("/a/%2e%2e/b;c=d/<x>?q=%zz&r=[]"), ""},
		{reported("/a//b/"), ""},
		{reported("http://a.example/x"), ""},
		{reported("HTTPS://A.EXAMPLE:443?x"), ""},
		{reported("/", "X-User: a", "Content-Length: 7", "Upgrade: WebSocket", "Connection: upgrade, keep-alive", "Host: a.example"), ""},
		{with(func(q *httplimit.Report) { q.Method, q.Target = "OPTIONS", "*" }), ""},
		{with(func(q *httplimit.Report) { q.Add("X-HTTP-Method-Override", "PUT"); q.MethodOverride = true }), ""},

		{with(func(q *httplimit.Report) { q.Method = "" }), "method is missing"},
		{with(func(q *httplimit.Report) { q.Method = "post" }), "method has lower-case letters"},
		{with(func(q *httplimit.Report) { q.Method = "GET\r\n" }), "method is not a method"},
		{with(func(q *httplimit.Report) { q.Method = "CONNECT" }), "method opens a tunnel"},
		{with(func(q *httplimit.Report) { q.Method, q.Target = "CONNECT", "a.example:443" }), "target is not a path"},
		{with(func(q *httplimit.Report) { q.Host = "" }), "host is missing"},
		{with(func(q *httplimit.Report) { q.Host = "a.example:80:80" }), "host is not a host"},
		{with(func(q *httplimit.Report) { q.Host = "a.example,b.example" }), "host is not a host"},
		{with(func(q *httplimit.Report) { q.Add("Host", "b.example") }), "header names another host"},
		{with(func(q *httplimit.Report) { q.Header = http.Header{"Host": {"a.example", "a.example"}} }), "header names another host"},

		{reported(""), "target is not a path"},
		{reported("*"), "target is not a path"},
		{reported("login"), "target is not a path"},
		{reported("http:/login"), "target is not a path"},
		{reported("ftp://a.example/"), "target is not a path"},
		{reported("http://b.example/"), "target names another host"},
		{reported("http://a.example@b.example/"), "target names another host"},
		{reported(`http://b.example\a.example/`), "target names another host"},
		{reported("http:///login"), "target names another host"},
		{reported("http://a.example//b/login"), "target begins with two slashes"},
		{reported(`http://a.example\b/login`), "target begins with two slashes"},
		{reported("//b/login"), "target begins with two slashes"},
		{reported(`/\b/login`), "target begins with two slashes"},
		{reported("/login#x"), "target has a fragment"},
		{reported("/?a#"), "target has a fragment"},
		{reported("/log in"), "target has a space"},
		{reported("/?a b"), "target has a space"},
		{reported("/login\n"), "target has a control character"},
		{reported("/?a\x7f"), "target has a control character"},
		{reported("/100%"), "target has a percent sign"},
		{reported("/login%00"), "path has an encoded control character"},
		{reported("/" + strings.Repeat("a", 1<<16)), "target is longer than 64 KiB"},

		{with(func(q *httplimit.Report) { q.Header = http.Header{"x-user": {"a"}} }), "header has a name"},
		{with(func(q *httplimit.Report) { q.Header = http.Header{"a-User": {"a"}} }), "header has a name"},
		{with(func(q *httplimit.Report) { q.Header = http.Header{"X-UA": {"a"}} }), "header has a name"},
		{with(func(q *httplimit.Report) { q.Header = http.Header{"X-UZ": {"a"}} }), "header has a name"},
		{with(func(q *httplimit.Report) { q.Header = http.Header{"X User": {"a"}} }), "header has a name"},
		{with(func(q *httplimit.Report) { q.Header = http.Header{"": {"a"}} }), "header has a name"},
		{reported("/", "X-User: a\r\nX-Other: b"), "header has a control character"},
		{reported("/", "X-Other: a\x00"), "header has a control character"},
		{reported("/", "X-Other: a "), "header has white space"},
		{reported("/", "X-Other: "+strings.Repeat("a", 1<<20)), "header is longer than 1 MiB"},
		{reported("/", "x-http-method-override: PUT"), "header replaces"},
		{reported("/", "X_HTTP_Method: PUT"), "header replaces"},
		{reported("/", "X-Original-URL: /login"), "header replaces"},
		{with(func(q *httplimit.Report) { q.Add("X-Rewrite-Url", "/login"); q.MethodOverride = true }), "header replaces"},
		{reported("/", "Upgrade: h2c"), "header requests a protocol"},
		{reported("/", "Upgrade: websocket, h2c"), "header requests a protocol"},
		{reported("/", "Upgrade: websocket", "Upgrade: h2c"), "header requests a protocol"},
		{reported("/", "Connection: close, x-user"), "header is named in Connection"},
		{reported("/", "Content-Length: 7", "Content-Length: 7"), "header has no clear length"},
		{reported("/", "Content-Length: +7"), "header has no clear length"},
		{reported("/", "Content-Length: 7", "Transfer-Encoding: chunked"), "header has no clear length"},
		{with(func(q *httplimit.Report) { q.Add("Content-Length", "7"); q.ContentLength = 8 }), "header has no clear length"},
	} {
		_, v := d.DecideReport(t.Context(), c.q)
		var bad *policy.AttributeError
		problem := ""
		if errors.As(v.Refused, &bad) {
			problem = bad.Attribute + " " + bad.Problem
		}
		if v.Allowed() != (c.want == "") || !strings.HasPrefix(problem, c.want) || (problem == "") != (c.want == "") {
			t.Errorf("%s %.80q %q: %q, want %q", c.q.Method, c.q.Target, c.q.Header, problem, c.want)
		}
		if !v.Allowed() && denial.Status(&v) != http.StatusBadRequest {
			t.Errorf("%.80q: status %d", c.q.Target, denial.Status(&v))
		}
	}
}

// The path of a report has the escapes that the client sent, also beside bytes that should be escaped. Package
// net/url would decode all of them there.
func TestReportsKeepTheEscapesOfPaths(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
		policy.Rule{Name: "one", Match: policy.Match{Paths: []string{"/users/*"}}, Limits: hourly(1)})
	for i, target := range []string{"/users/a%2F<", "/users/a%2fb", "/users/a%2F|", "/users/\"%2F", "/users/[%2F]", "/users/é%2F", "/users/x?a=%2F", "/./users/a"} {
		if _, v := d.DecideReport(t.Context(), reported(target)); v.Allowed() != (i == 0) || len(v.Results) != 1 {
			t.Errorf("path %s: %v, want only the first allowed, by the rule", target, v.String())
		}
	}
	for target, want := range map[string]string{
		"/a%2Fb<": "/a%2Fb%3C", "/[a]!": "/[a]!", "/%61": "/%61", "/a;b=c&d": "/a;b=c&d", "/é%zz"[:3]: "/%C3%A9", `/a\b`: "/a%5Cb",
	} {
		r, v := d.DecideReport(t.Context(), reported(target))
		if v.Refused != nil || r.URL.EscapedPath() != want {
			t.Errorf("%s became %v, want %s", target, r.URL, want)
		}
	}
}

// A header in another spelling makes its value unclear, because nobody removes it before the service. The value of a
// cost counts, if it is higher.
func TestReportsWithOtherSpellings(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
		policy.Rule{Name: "key", Match: policy.Match{Paths: []string{"/key"}}, Key: []policy.Part{policy.Header("X-Api-Key")}, Limits: hourly(100)},
		policy.Rule{Name: "first", Match: policy.Match{Paths: []string{"/first"}}, Key: []policy.Part{policy.Header("X-Api-Key").IfRepeated(policy.RepeatedFirst)}, Limits: hourly(100)},
		policy.Rule{
			Name: "free", Match: policy.Match{Paths: []string{"/plan"}, Headers: []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{"free"}}}},
			WhenLimited: policy.LimitedAction{Status: 402}, Always: true,
		},
		policy.Rule{Name: "cost", Match: policy.Match{Paths: []string{"/cost"}}, Limits: hourly(100), Cost: policy.Cost{Header: "X-Cost"}},
	)
	for _, c := range []struct {
		q    *httplimit.Report
		want int
		cost int64
	}{
		{reported("/key", "X-Api-Key: a"), 200, 1},
		{reported("/key", "X-Api-Key: a", "X-Api_Key: a"), 400, 0},
		{reported("/key", "X_Api_Key: a"), 400, 0},
		{reported("/key", "x.api.key: a"), 400, 0},
		{reported("/key", "X!Api~Key: a"), 400, 0},
		{reported("/key", "Xx-Api-Key: a"), 200, 1},
		{reported("/first", "X_Api_Key: a"), 200, 1},
		{reported("/plan", "X-Plan: paid"), 200, 0},
		{reported("/plan", "X-Plan: free"), 402, 0},
		{reported("/plan", "X_Plan: free"), 402, 0},
		{reported("/plan", "X-Plan: paid", "X_Plan: free"), 402, 0},
		{reported("/cost", "X-Cost: 2", "X_Cost: 3"), 200, 3},
		{reported("/cost", "X-Cost: 4", "X_Cost: 3"), 200, 4},
	} {
		_, v := d.DecideReport(t.Context(), c.q)
		status, cost := 200, int64(0)
		if !v.Allowed() {
			status = denial.Status(&v)
		} else if len(v.Results) > 0 {
			cost = v.Results[0].Request.Cost
		}
		if status != c.want || cost != c.cost {
			t.Errorf("%s %v: %d, cost %d, want %d, %d", c.q.Target, c.q.Header, status, cost, c.want, c.cost)
		}
	}
	if _, v := keyed(t, httplimit.KeyOptions{Store: storeAt(t, &clock), Limits: hourly(9), Key: []policy.Part{policy.Header("X-User")}}).
		DecideReport(t.Context(), reported("/", "X_User: a")); v.Allowed() {
		t.Error("a key by a header in another spelling is allowed")
	}
}

// The gateway's peer is the client, unless it is a trusted proxy; then X-Forwarded-For counts.
func TestReportsOfClients(t *testing.T) {
	proxies, err := httplimit.ParseProxies("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies})
	if err != nil {
		t.Fatal(err)
	}
	clock, marked := int64(1e6), true
	store := &recordingStore{Store: storeAt(t, &clock)}
	d := ruled(t, store, httplimit.PolicyOptions{ClientIP: ip, TrustMarks: ip.TrustsPeer},
		policy.Rule{Name: "client", Key: []policy.Part{policy.ClientIP()}, Limits: hourly(9)},
		policy.Rule{Name: "marked", Match: policy.Match{Marked: &marked}, Always: true})
	for _, c := range []struct {
		remote string
		lines  []string
		want   string
		marked bool
	}{
		{"192.0.2.1", nil, "192.0.2.1", false},
		{"192.0.2.1:80", []string{"X-Forwarded-For: 6.6.6.6", "Sluice-Marked: x"}, "192.0.2.1", false},
		{"10.1.1.1", []string{"X-Forwarded-For: 6.6.6.6, 192.0.2.1"}, "192.0.2.1", false},
		{"10.1.1.1", []string{"X-Forwarded-For: 192.0.2.1, 10.2.2.2", "Sluice-Marked: x"}, "", true},
	} {
		q := reported("/", c.lines...)
		q.RemoteAddr = c.remote
		store.decided = nil
		r, v := d.DecideReport(t.Context(), q)
		_, remove := d.PassedHeaders(r, &v)
		if !c.marked && (len(store.decided) != 1 || store.decided[0].Key.Text() != c.want) || v.Allowed() == c.marked {
			t.Errorf("%+v: the store decided %v: %s", c, store.decided, v.String())
		}
		if forged := len(c.lines) == 2 && !c.marked; forged != slices.Contains(remove, "Sluice-Marked") {
			t.Errorf("%+v: removes %q", c, remove)
		}
	}
}

// What rules set on requests is reported for the gateway to set.
func TestPassedHeaders(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
		policy.Rule{
			Name: "slow", Limits: hourly(1), Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Plan", OneOf: []string{"free"}}}},
			WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Slow": "by {rule}"}},
		})
	for i, want := range []string{"", "by slow"} {
		r, v := d.DecideReport(t.Context(), reported("/", "X-Plan: free", "X-Slow: forged", "x_slow: forged", "X_Plan: paid"))
		set, remove := d.PassedHeaders(r, &v)
		slices.Sort(remove)
		if !v.Allowed() || set.Get("X-Slow") != want || !slices.Equal(remove, []string{"X-Slow", "X_plan", "X_slow"}) {
			t.Errorf("request %d: sets %v, removes %q", i, set, remove)
		}
	}
}

// A gateway that cannot remove headers would pass forged marks on in another spelling. A trusted hop may send any.
func TestForgedSpellings(t *testing.T) {
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{ClientIP: ip, TrustMarks: ip.TrustsPeer}, policy.Rule{
		Name: "slow", Limits: hourly(9), WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Slow": "yes"}},
	})
	for line, refused := range map[string]bool{
		"Sluice_Marked: x": true, "sluice.degraded: x": true, "x_slow: x": true, "X-SLOW: x": false, "Sluice-Marked: x": false, "X_Slower: x": false,
	} {
		for _, peer := range []string{"192.0.2.1", "10.0.0.1"} {
			for _, keeps := range []bool{true, false} {
				q := reported("/", line)
				q.RemoteAddr, q.KeepsHeader = peer, keeps
				_, v := d.DecideReport(t.Context(), q)
				if want := refused && keeps && peer == "192.0.2.1"; (v.Refused != nil) != want {
					t.Errorf("%s from %s, KeepsHeader %v: %s", line, peer, keeps, v.String())
				}
			}
		}
	}
}

// FuzzReport compares reports with requests of net/http: what both accept has the same key.
func FuzzReport(f *testing.F) {
	for _, target := range []string{"/", "/a%2Fb<", "//x", "/a?b=c#d", "http://a.example/x", "*", "/é", "/%2e%2e/x", "/a;b"} {
		f.Add("GET", target, "a.example", "X-User", "eve", "6.6.6.6, 192.0.2.1")
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	ip, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies})
	if err != nil {
		f.Fatal(err)
	}
	clock := int64(1e6)
	store := &recordingStore{Store: storeAt(f, &clock)}
	d := ruled(f, store, httplimit.PolicyOptions{ClientIP: ip}, policy.Rule{
		Name: "all", Limits: hourly(1 << 30),
		Key: []policy.Part{policy.Method(), policy.Host(), policy.Path(), policy.Header("X-User").IfRepeated(policy.RepeatedFirst), policy.ClientIP().IfMissing(policy.MissingShared)},
	})
	f.Fuzz(func(t *testing.T, method, target, host, name, value, chain string) {
		q := &httplimit.Report{Method: method, Target: target, Host: host, RemoteAddr: "10.0.0.1"}
		q.Add(name, value)
		q.Add("X-Forwarded-For", chain)
		direct := &http.Request{Method: method, Host: host, RemoteAddr: q.RemoteAddr, Header: q.Header.Clone(), ContentLength: -1}
		store.decided = nil
		r, v := d.DecideReport(t.Context(), q)
		keys := slices.Clone(store.decided)
		if !v.Allowed() {
			if len(keys) > 0 {
				t.Fatal("a refused request was charged")
			}
			return
		}
		if r.URL.Fragment != "" || r.URL.Opaque != "" || r.URL.Host != "" || strings.HasPrefix(r.URL.Path, "//") {
			t.Fatalf("%q became %#v", target, r.URL)
		}
		u, err := url.ParseRequestURI(target)
		if err != nil || u.EscapedPath() != r.URL.EscapedPath() {
			return // net/url decodes escapes beside bytes that should be escaped
		}
		direct.URL = u
		store.decided = nil
		if d.Decide(direct); len(store.decided) != len(keys) || len(keys) > 0 && store.decided[0].Key.Text() != keys[0].Key.Text() {
			t.Fatalf("%q: the report has %v, the request %v", target, keys, store.decided)
		}
	})
}
