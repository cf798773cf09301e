package forwardauth_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Each gateway's headers describe the same request, and both outcomes have the headers of the limit.
func TestHeadersOfEachGateway(t *testing.T) {
	for name, headers := range map[string]func(method, target, client string, more ...string) []string{"nginx": nginx, "traefik": traefik} {
		f := newFixture(t, policy.Rule{
			Name: "login", Match: policy.Match{Paths: []string{"/login"}, Methods: []string{"POST"}, Hosts: []string{"a.example"}},
			Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{sluice.MustLimit("logins", sluice.FixedWindow{Rate: sluice.PerHour(2)})},
		})
		for i, c := range []struct {
			query  string
			lines  []string
			status int
			actual string
		}{
			{"", headers("POST", "/login?a=b", "192.0.2.1"), 200, ""},
			{"?deny_status=403", headers("POST", "/x/../%6cogin/", "192.0.2.1"), 200, ""},
			{"", headers("POST", "/login", "192.0.2.1"), 429, ""},
			{"?deny_status=429", headers("POST", "/login", "192.0.2.1"), 429, ""},
			{"?deny_status=403", headers("POST", "/login", "192.0.2.1"), 403, "429"},
			{"?deny_status=403", headers("post", "/login", "192.0.2.1"), 403, "400"},
			{"", headers("POST", "/login", "192.0.2.2"), 200, ""},
			{"", headers("GET", "/login", "192.0.2.1"), 200, ""},
			{"", headers("POST", "/log%2fin", "192.0.2.1"), 200, ""},
		} {
			w := f.call(c.query, c.lines...)
			if w.Code != c.status || w.Header().Get("Sluice-Status") != c.actual {
				t.Errorf("%s, request %d: status %d, Sluice-Status %q: %s", name, i, w.Code, w.Header().Get("Sluice-Status"), w.Body)
			}
			limited := i < 5
			if limited && !strings.HasPrefix(w.Header().Get("RateLimit"), `"login/logins";r=`) {
				t.Errorf("%s %d: RateLimit is %q", name, i, w.Header().Get("RateLimit"))
			}
			if denied := limited && i >= 2; denied && (w.Header().Get("Retry-After") == "" || !json.Valid(w.Body.Bytes())) || w.Code == 200 && w.Body.Len() > 0 {
				t.Errorf("%s, request %d: headers %v, body %s", name, i, w.Header(), w.Body)
			}
		}
		if len(f.verdicts) != 9 || len(f.unusable) != 0 {
			t.Errorf("%s: %d verdicts, and %q", name, len(f.verdicts), f.unusable)
		}
	}
}

// A gateway that forgets a header gets no answer, so that no client can send the header instead.
func TestUnusableRequests(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Key: []policy.Part{policy.ClientIP()}, Limits: hourly(1000)})
	without := func(lines []string, name string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, name+":") })
	}
	n, c := nginx("GET", "/", "192.0.2.1"), traefik("GET", "/", "192.0.2.1")
	for _, x := range []struct {
		query string
		lines []string
		want  string // in the detail, empty for a decision
	}{
		{"", n, ""},
		{"", c, ""},
		{"", append(n, "X-Forwarded-For: 6.6.6.6, 192.0.2.1"), ""},
		{"", append(without(n, "X-Real-IP"), "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1"), ""},
		{"", append(n, "X-Forwarded-For: [2001:db8::1]:80, 192.0.2.1:80"), ""},
		{"", append(c, "X-Real-Ip: 198.51.100.1"), ""}, // Traefik keeps the header of a trusted peer
		{"", append(n, "X-Forwarded-Host: elsewhere.example", "X-Forwarded-Proto: http"), "describe different"[:0]},

		{"", nil, "describes no request"},
		{"", []string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: a.example"}, "describes no request"},
		{"", without(n, "X-Original-Method"), "X-Original-Method is missing"},
		{"", without(n, "X-Original-URI"), "X-Original-URI is missing"},
		{"", without(n, "X-Original-Host"), "X-Original-Host is missing"},
		{"", without(n, "X-Real-IP"), "address of the client is missing"},
		{"", without(c, "X-Forwarded-Method"), "X-Forwarded-Method is missing"},
		{"", without(c, "X-Forwarded-Uri"), "X-Forwarded-Uri is missing"},
		{"", without(c, "X-Forwarded-Host"), "X-Forwarded-Host is missing"},
		{"", without(c, "X-Forwarded-For"), "X-Forwarded-For is missing"},
		{"", append(without(c, "X-Forwarded-For"), "X-Real-Ip: 192.0.2.1"), "X-Forwarded-For is missing"},
		{"", append(without(n, "X-Original-Host"), "X-Original-Host:"), "X-Original-Host is missing"},

		{"", append(n, "X-Original-URI: /"), "X-Original-URI was sent several times"},
		{"", append(n, "X-Original-Method: POST"), "X-Original-Method was sent several times"},
		{"", append(n, "X-Original-Host: b.example"), "X-Original-Host was sent several times"},
		{"", append(n, "X-Real-IP: 192.0.2.1"), "X-Real-IP was sent several times"},
		{"", append(c, "X-Forwarded-Uri: /"), "X-Forwarded-Uri was sent several times"},

		{"", append(n, "X-Forwarded-Uri: /other"), "different requests"},
		{"", append(n, "X-Forwarded-Method: POST"), "different requests"},
		{"", append(c, "X-Original-URI: /other"), "different requests"},
		{"", append(c, "X-Original-Host: b.example"), "different requests"},
		{"", append(c, "X-Original-Method: GET", "X-Original-Method: GET"), "different requests"},
		{"", append(c, "X-Original-Method: GET"), ""}, // the same
		{"", append(n, c...), ""}, // the same
		{"", append(c, "X-Original-Method: GET", "X-Real-Ip: 6.6.6.6"), ""}, // not a whole set
		{"", append(nginx("GET", "/", "6.6.6.6"), c...), "X-Real-IP is not the last"},

		{"", append(n, "X-Forwarded-For: 192.0.2.1, 6.6.6.6"), "X-Real-IP is not the last"},
		{"", append(n, "X-Forwarded-For: 192.0.2.1,"), "X-Real-IP is not the last"},
		{"", nginx("GET", "/", "unknown"), "is not an address"},
		{"", traefik("GET", "/", "192.0.2.1, _hidden"), "is not an address"},
		{"", traefik("GET", "/", "192.0.2.1, "), "is not an address"},

		{"?deny_status=", n, ""},
		{"?a=b%2f", traefik("GET", "/x?a=b%2f", "192.0.2.1"), ""}, // Caddy adds the client's query
		{"?a=b%2f", traefik("GET", "/x?a=b", "192.0.2.1"), "parameters of /auth"},
		{"?a=b", nginx("GET", "/x?a=b", "192.0.2.1"), "parameters of /auth"},
		{"?deny_status=%34%30%33", n, ""},
		{"?deny_status=200", n, "parameters of /auth"},
		{"?deny_status=403&deny_status=200", n, "parameters of /auth"},
		{"?deny_status=403&x", n, "parameters of /auth"},
		{"?x=%zz", n, "parameters of /auth"},
	} {
		f.unusable = nil
		w := f.call(x.query, x.lines...)
		got := strings.Join(f.unusable, ", ")
		if !strings.Contains(got, x.want) || (got == "") != (x.want == "") || (w.Code == 200) != (x.want == "") {
			t.Errorf("%s %q: %d %q, want %q", x.query, x.lines, w.Code, got, x.want)
		}
		if x.want != "" && (w.Code != 400 || !strings.Contains(w.Body.String(), `"remedy":"`)) {
			t.Errorf("%q: the refusal should have a remedy: %d %s", x.lines, w.Code, w.Body)
		}
	}
	f = newFixture(t, policy.Rule{Name: "none", Always: true})
	if w := f.call("?deny_status=403", traefik("GET", "/?deny_status=403", "192.0.2.1")...); w.Code != 429 {
		t.Errorf("a client chooses the status: %d", w.Code)
	}
	if w := f.call("?deny_status=403", nginx("GET", "/?deny_status=403", "192.0.2.1")...); w.Code != 403 {
		t.Errorf("a client chooses the status: %d", w.Code)
	}
	if w := f.call("?deny_status=403"); w.Code != 403 || w.Header().Get("Sluice-Status") != "400" {
		t.Errorf("with a status for denials: %d %v", w.Code, w.Header())
	}
}

// Only gateways get decisions, and only by GET at one path.
func TestWhoGetsDecisions(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Limits: hourly(1)})
	for _, c := range []struct {
		method, path, peer string
		want               int
	}{
		{"GET", "/auth", "192.0.2.7:1", 403},
		{"GET", "/auth", "", 403},
		{"GET", "/auth", "@", 403},
		{"GET", "/auth/", "127.0.0.1:1", 404},
		{"GET", "/", "127.0.0.1:1", 404},
		{"POST", "/auth", "127.0.0.1:1", 405},
		{"GET", "/auth", "[::ffff:127.0.0.1]:1", 200},
		{"HEAD", "/auth", "10.1.2.3:1", 429},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.RemoteAddr = c.peer
		if w := f.send(r, nginx("GET", "/", "192.0.2.1")...); w.Code != c.want {
			t.Errorf("%s %s of %q: %d %s", c.method, c.path, c.peer, w.Code, w.Body)
		}
	}
}

// Believed are the peer of the gateway, and what trusted proxies before it wrote.
func TestOnlyTrustedProxiesNameClients(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "client", Key: []policy.Part{policy.ClientIP()}, Limits: hourly(1)},
		policy.Rule{Name: "banned", Match: matching("/ip"), Key: []policy.Part{policy.Global()}, DenyIPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}, Limits: hourly(100)})
	for i, c := range []struct {
		lines []string
		want  int
	}{
		{nginx("GET", "/", "192.0.2.1"), 200},
		{nginx("GET", "/", "192.0.2.1", "X-Forwarded-For: 6.6.6.1, 192.0.2.1"), 429},
		{nginx("GET", "/", "::ffff:192.0.2.1", "X-Forwarded-For: 6.6.6.2", "X-Forwarded-For: 192.0.2.1"), 429},
		{nginx("GET", "/", "192.0.2.1:99"), 429},
		{traefik("GET", "/", "6.6.6.6, 192.0.2.1"), 429},
		{traefik("GET", "/", "6.6.6.6, 192.0.2.1, 10.0.0.1"), 429},
		{traefik("GET", "/", "6.6.6.6, 192.0.2.1, 10.0.0.2, 10.0.0.1"), 429},
		{traefik("GET", "/", "10.0.0.1", "X-Real-Ip: 6.6.6.6"), 200},
		{traefik("GET", "/", "10.0.0.1", "Forwarded: for=6.6.6.6"), 429},
		{traefik("GET", "/", "2001:db8::1"), 200},
		{traefik("GET", "/", "2001:db8::2"), 429},
		{traefik("GET", "/ip", "192.0.2.9"), 403},
	} {
		if w := f.call("", c.lines...); w.Code != c.want {
			t.Errorf("%d: %d, want %d: %s", i, w.Code, c.want, w.Body)
		}
	}
}

// A delay is over before the answer. A request that would wait too long is denied.
func TestDelaysAreOverBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, policy.Rule{
			Name: "slow", MaxWait: 2 * time.Second, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 1})},
		})
		began := time.Now()
		for i, want := range []int{200, 200, 200} {
			if w := f.call("", nginx("GET", "/", "192.0.2.1")...); w.Code != want || time.Since(began).Round(time.Millisecond) != time.Duration(i)*time.Second {
				t.Errorf("request %d: %d after %v", i, w.Code, time.Since(began))
			}
		}
	})
}

// What a gateway cannot report back stays charged, and leases end at once.
func TestUnseenOutcomes(t *testing.T) {
	limits := func(n int64) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(n)})}
	}
	f := newFixture(
		t,
		policy.Rule{Name: "failed", Match: matching("/failed"), Limits: limits(2), CountStatus: []policy.StatusRange{{From: 401, To: 401}}},
		policy.Rule{Name: "bytes", Match: matching("/bytes"), Limits: limits(10), Cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 4}},
		policy.Rule{Name: "sent", Match: matching("/sent"), Limits: limits(10), Cost: policy.Cost{Source: policy.CostRequestBytes, Estimate: 4}},
		policy.Rule{Name: "lease", Match: matching("/lease"), Limits: []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 1, TTL: time.Minute})}},
	)
	for path, want := range map[string]int{"/failed": 2, "/bytes": 2, "/sent": 2, "/lease": 5} {
		passed := 0
		for range 5 {
			if f.call("", nginx("GET", path, "192.0.2.1")...).Code == 200 {
				passed++
			}
		}
		if passed != want {
			t.Errorf("%s: %d pass, want %d", path, passed, want)
		}
	}
	if len(f.errs) > 0 {
		t.Errorf("the calls caused errors: %v", f.errs)
	}
}

// A gateway gets the headers with which rules mark and degrade requests, and never what a client sends.
func TestHeadersForTheService(t *testing.T) {
	act := func(path string, a policy.LimitedAction) policy.Rule {
		return policy.Rule{Name: strings.Trim(path, "/"), Match: matching(path), Limits: hourly(1), WhenLimited: a}
	}
	f := newFixture(
		t,
		act("/mark", policy.LimitedAction{Action: policy.Mark}),
		act("/degrade", policy.LimitedAction{Action: policy.Degrade, RequestHeader: map[string]string{"X-Quality": "low {rule}"}}),
		act("/else", policy.LimitedAction{Action: policy.Degrade, Upstream: "http://127.0.0.1:1"}),
		act("/answer", policy.LimitedAction{Action: policy.Degrade, Status: 418, Body: "busy"}),
	)
	for _, c := range []struct{ path, header, want string }{
		{"/mark", "Sluice-Marked", "mark"}, {"/degrade", "X-Quality", "low degrade"}, {"/else", "Sluice-Degraded", "else"}, {"/answer", "Sluice-Degraded", "answer"},
	} {
		for i, want := range []string{"", c.want} {
			w := f.call("", nginx("GET", c.path, "192.0.2.1", c.header+": forged")...)
			if w.Code != 200 || w.Header().Get(c.header) != want || w.Body.Len() > 0 {
				t.Errorf("%s, request %d: %d %v, want %s: %q", c.path, i, w.Code, w.Header(), c.header, want)
			}
		}
	}
	if w := f.call("", nginx("GET", "/none", "10.0.0.1", "Sluice-Marked: earlier")...); w.Header().Get("Sluice-Marked") != "earlier" {
		t.Errorf("the mark of a trusted hop is lost: %v", w.Header())
	}
}

// A gateway that passes on the length of a body, and not the body, gets its answer at once.
func TestLengthWithoutBody(t *testing.T) {
	f := newFixture(t, policy.Rule{Name: "all", Limits: hourly(1)})
	s := httptest.NewServer(f.h)
	defer s.Close()
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		answer := exchange(t, s.Listener.Addr().String(),
			"GET /auth?deny_status=403 HTTP/1.1\r\nHost: l\r\n"+strings.Join(nginx("POST", "/", "192.0.2.1"), "\r\n")+"\r\n"+framing+"\r\n\r\n")
		for _, want := range []string{"HTTP/1.1 403 ", "\r\nSluice-Status: 400\r\n", "\r\nConnection: close\r\n", "proxy_pass_request_body off"} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: %q lacks %q", framing, answer, want)
			}
		}
	}
}

// exchange sends a request, and returns what comes back until the other side closes the connection.
func exchange(t *testing.T, addr, request string) string {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
