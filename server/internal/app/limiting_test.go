package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
)

// behind starts a service.
func behind(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func TestAllRulesOfARequestAreOneDecision(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: "+behind(t, hello)+`
rules:
  - name: everything
    key: [client_ip]
    limit: {algorithm: token_bucket, rate: 100/h, burst: 100}
  - name: login
    match: {path: /login, method: POST}
    key: [client_ip, "header:X-User"]
    limit: {algorithm: token_bucket, rate: 2/h, burst: 2}
    when_limited: {status: 403}
`), nil)
	for i, want := range []int{200, 200, 403, 403, 403} {
		res, _ := r.send(Proxy, http.MethodPost, "/login", "", "X-User", "ann")
		if res.StatusCode != want {
			t.Errorf("request %d answers %d, want %d", i+1, res.StatusCode, want)
		}
		if !strings.HasPrefix(res.Header.Get("RateLimit"), `"login";r=`) {
			t.Errorf("request %d: the tightest rule does not fill the header: %q", i+1, res.Header.Get("RateLimit"))
		}
	}
	res, _ := r.send(Proxy, http.MethodGet, "/other", "")
	if got := res.Header.Get("RateLimit"); !strings.HasPrefix(got, `"everything";r=97;`) {
		t.Errorf("denied requests were charged to the other rule: %q", got)
	}
	_, text := r.send(API, http.MethodPost, "/v1/peek", `{"method": "POST", "path": "/login", "client_ip": "127.0.0.1", "headers": {"X-User": "ann"}}`)
	if !strings.Contains(text, `"allowed":false`) || !strings.Contains(text, `"rule":"login"`) {
		t.Errorf("the API does not explain what the proxy decided: %s", text)
	}
	for series, want := range map[string]string{
		`sluice_decisions_total{outcome="denied",rule="login"}`:         "3",
		`sluice_decisions_total{outcome="allowed",rule="login"}`:        "2",
		`sluice_decisions_total{outcome="uncharged",rule="everything"}`: "3",
		`sluice_decisions_total{outcome="allowed",rule="everything"}`:   "3",
		`sluice_decision_duration_seconds_count{edge="proxy"}`:          "6",
		`sluice_store_keys`: "2",
	} {
		if got := r.figure(series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	log := r.log.String()
	if n := strings.Count(log, "msg=denied"); n != 3 || !strings.Contains(log, "rule=login") || strings.Contains(log, "ann") {
		t.Errorf("%d denials in the log:\n%s", n, log)
	}
}

func TestEachClientBehindATrustedProxyHasItsOwnBudget(t *testing.T) {
	t.Parallel()
	const rule = "\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"
	upstream := free + "upstream: " + behind(t, hello)
	for trusted, want := range map[string][]int{"[127.0.0.1]": {200, 429, 200, 200}, "[]": {200, 429, 429, 429}} {
		r := start(t, parse(t, upstream+"\ntrusted_proxies: "+trusted+rule), nil)
		for i, chain := range []string{"198.51.100.1", "6.6.6.6, 198.51.100.1", "198.51.100.2", "2001:db8::1"} {
			if got := r.status(Proxy, "/", "X-Forwarded-For", chain); got != want[i] {
				t.Errorf("trusting %s: %s answers %d, want %d", trusted, chain, got, want[i])
			}
		}
	}
}

func TestLeasesAreGivenBack(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	r := start(t, parse(t, free+"upstream: "+behind(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			inside <- struct{}{}
			<-leave
		}
	})+"\nrules: [{name: jobs, key: [global], limit: {algorithm: concurrency, max: 1, ttl: 1h}}]"), nil)
	done := make(chan int, 1)
	go func() {
		defer close(done)
		done <- r.status(Proxy, "/slow")
	}()
	<-inside
	if got := r.status(Proxy, "/"); got != http.StatusTooManyRequests {
		t.Errorf("a second request answers %d", got)
	}
	close(leave)
	if got := <-done; got != http.StatusOK {
		t.Errorf("the first request answers %d", got)
	}
	for range 3 {
		eventually(t, "the return of the lease", func() bool { return r.status(Proxy, "/") == http.StatusOK })
	}
}

func TestRequestsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: "+behind(t, hello)+
		"\nrules: [{name: turn, key: [global], limit: {algorithm: leaky_bucket, rate: 20/s, queue: 1}}]"), nil)
	for range 4 {
		if got := r.status(Proxy, "/"); got != http.StatusOK {
			t.Errorf("answers %d", got)
		}
	}
	if got := r.figure(`sluice_decisions_total{outcome="delayed",rule="turn"}`); got == "0" {
		t.Errorf("no request was delayed")
	}
}

func TestHeadersFollowTheProfile(t *testing.T) {
	t.Parallel()
	for profile, header := range map[string]string{
		"ietf": "RateLimit", "x-ratelimit": "X-RateLimit-Remaining", "x-rate-limit": "X-Rate-Limit-Remaining", "none": "",
	} {
		r := start(t, parse(t, free+"headers: "+profile+
			"\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"), nil)
		r.status(Proxy, "/")
		res, _ := r.send(Proxy, http.MethodGet, "/", "")
		if header != "" && res.Header.Get(header) == "" {
			t.Errorf("%s: no %s in %v", profile, header, res.Header)
		}
		if header == "" && res.Header.Get("RateLimit") != "" || res.Header.Get("Retry-After") == "" {
			t.Errorf("profile %s: the headers of a refusal are %v", profile, res.Header)
		}
	}
}

func TestKeysOfRealRequestsMakeNoSeries(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+`
rules:
  - name: user
    key: ["header:X-User", path]
    limit: {algorithm: token_bucket, rate: 1/h}
`), nil)
	series := func() int {
		_, text := r.send(Admin, http.MethodGet, "/metrics", "")
		return len(regexp.MustCompile(`(?m)^sluice_`).FindAllString(text, -1))
	}
	before := series()
	for i := range soak.Times(t, 150) {
		r.status(Proxy, fmt.Sprintf("/%d", i), "X-User", fmt.Sprint("user ", i))
		r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"path": "/x%d", "headers": {"X-User": "%d"}}`, i, i))
		r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"rule": "rule %d"}`, i))
	}
	if after := series(); after != before {
		t.Errorf("%d series before many keys, %d after", before, after)
	}
}

func TestOperatorsResetKeys(t *testing.T) {
	t.Parallel()
	const rule = free + "rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"
	const body = `{"client_ip": "127.0.0.1"}`
	r := start(t, parse(t, rule), nil)
	r.status(Proxy, "/")
	if got := r.status(Proxy, "/"); got != http.StatusTooManyRequests {
		t.Fatalf("answers %d", got)
	}
	if res, text := r.send(API, http.MethodPost, "/v1/reset", body); res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "admin") {
		t.Errorf("without a token the API answers %d, %s", res.StatusCode, text)
	}
	if got := r.status(Proxy, "/"); got != http.StatusTooManyRequests {
		t.Errorf("a reset without a token worked: %d", got)
	}
	if res, text := r.send(Admin, http.MethodPost, "/v1/reset", body); res.StatusCode != http.StatusOK || !strings.Contains(text, `"one"`) {
		t.Errorf("the admin listener answers %d, %s", res.StatusCode, text)
	}
	if got := r.status(Proxy, "/"); got != http.StatusOK {
		t.Errorf("after the reset: %d", got)
	}

	const token = "a token of some length"
	r = start(t, parse(t, rule), func(o *Options) { o.Token = token })
	for _, listener := range []string{API, Admin} {
		for header, want := range map[string]int{"": 401, "Bearer guess": 401, "Bearer " + token: 200} {
			if res, text := r.send(listener, http.MethodPost, "/v1/reset", body, "Authorization", header); res.StatusCode != want {
				t.Errorf("%s with %q answers %d, %s", listener, header, res.StatusCode, text)
			}
		}
	}
	if got := r.status(Admin, "/metrics"); got != http.StatusUnauthorized {
		t.Errorf("/metrics without the token answers %d", got)
	}
	if got := r.status(Admin, "/readyz"); got != http.StatusOK {
		t.Errorf("/readyz without the token answers %d", got)
	}
}

func TestOtherSitesCannotCallTheAPI(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"), nil)
	for _, listener := range []string{API, Admin} {
		res, _ := r.send(listener, http.MethodPost, "/v1/reset", `{}`, "Origin", "https://evil.example")
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s answers %d", listener, res.StatusCode)
		}
	}
}

func TestAServiceThatIsGoneIsAProblem(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(hello))
	gone := s.URL
	s.Close()
	r := start(t, parse(t, free+"upstream: "+gone+"\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 9/h}}]"), nil)
	res, text := r.send(Proxy, http.MethodGet, "/", "")
	u, _ := url.Parse(gone)
	if res.StatusCode != http.StatusBadGateway || res.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(text, u.Host) {
		t.Errorf("answers %d, %s", res.StatusCode, text)
	}
	if res.Header.Get("RateLimit") == "" {
		t.Error("the answer has no limit")
	}
	if got := r.figure(`sluice_upstream_failures_total{problem="unreachable"}`); got != "1" {
		t.Errorf("counted %s", got)
	}
	if !strings.Contains(r.log.String(), "unreachable") {
		t.Errorf("not logged:\n%s", r.log)
	}
}
