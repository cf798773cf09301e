package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// perClient allows two requests a client and hour.
const perClient = `
rules:
  - name: per-client
    key: [client_ip]
    limit: {algorithm: token_bucket, rate: 2/h, burst: 2}
`

func TestCheckExplainsWhatItDecides(t *testing.T) {
	s := serve(t, perClient, nil)
	const who = `{"method": "GET", "path": "/a", "client_ip": "192.0.2.1"}`
	r := s.want(true, "/v1/check", who)
	if r.Rule != "per-client" || r.Limit != "per-client" || *r.Capacity != 2 || *r.Remaining != 1 || r.Reason != "" || r.Action != "allow" {
		t.Errorf("allowed: %+v", r.decision)
	}
	s.want(true, "/v1/check", who)
	r = s.want(false, "/v1/check", who)
	if r.Rule != "per-client" || r.Reason != "limited" || r.Action != "deny" || *r.Remaining != 0 {
		t.Errorf("denied: %+v", r.decision)
	}
	if r.RetryAfterMS == nil || *r.RetryAfterMS < 1_790_000 || *r.RetryAfterMS > 1_800_000 || *r.RetryAfterSeconds*1000 < *r.RetryAfterMS {
		t.Errorf("waits of a denial: %+v", r.Waits)
	}
	if len(r.Limits) != 1 || r.Limits[0].Rule != "per-client" || r.Limits[0].Cost != 1 || !strings.HasPrefix(r.Limits[0].Algorithm, "token_bucket(2/h") {
		t.Errorf("limits: %+v", r.Limits)
	}
	if !strings.Contains(r.Explanation, "per-client") {
		t.Errorf("the explanation does not name the rule: %s", r.Explanation)
	}
	s.want(true, "/v1/check", `{"client_ip": "192.0.2.2"}`)
}

func TestCheckNeverTellsKeys(t *testing.T) {
	s := serve(t, "rules: [{name: user, key: ['header:X-User'], limit: {algorithm: token_bucket, rate: 1/h}}]", nil)
	for range 2 {
		r := s.call("/v1/check", `{"headers": {"x-user": "hunter2"}}`)
		if strings.Contains(fmt.Sprintf("%+v", r), "hunter2") {
			t.Errorf("the answer contains the key: %+v", r)
		}
	}
}

func TestDenialsHaveTheStatusOfTheParameter(t *testing.T) {
	s := serve(t, perClient, nil)
	const who = `{"client_ip": "192.0.2.1", "cost": 2}`
	if r := s.call("/v1/check?status=429", who); r.status != http.StatusOK || !r.Allowed || r.header.Get("Retry-After") != "" {
		t.Errorf("allowed: %d %v", r.status, r.header)
	}
	for _, path := range []string{"/v1/check", "/v1/peek", "/v1/reserve"} {
		if r := s.call(path+"?status=429", who); r.status != http.StatusTooManyRequests || r.Allowed || r.header.Get("Retry-After") != "3600" {
			t.Errorf("%s: %d, Retry-After %q", path, r.status, r.header.Get("Retry-After"))
		}
	}
	if r := s.call("/v1/check?status=503", who); r.status != http.StatusServiceUnavailable {
		t.Errorf("status %d", r.status)
	}
	for _, bad := range []string{"?status=200", "?status=x", "?status=600", "?deny=429"} {
		if r := s.call("/v1/check"+bad, who); r.status != http.StatusBadRequest || r.Field == "" || r.Remedy == "" {
			t.Errorf("%s should be refused with its remedy: %+v", bad, r)
		}
	}
}

func TestPeekTakesNothing(t *testing.T) {
	s := serve(t, perClient, nil)
	const who = `{"client_ip": "192.0.2.1"}`
	for range 5 {
		if r := s.want(true, "/v1/peek", who); *r.Remaining != 2 {
			t.Fatalf("%d remain", *r.Remaining)
		}
	}
	s.want(true, "/v1/check", `{"rule": "per-client", "key": "192.0.2.1", "cost": 2}`)
	s.want(false, "/v1/peek", who)
	s.want(false, "/v1/peek", `{"rule": "per-client", "key": ["192.0.2.1"]}`)
}

func TestARuleAndKeyAreTheStateOfTheRequest(t *testing.T) {
	s := serve(t, `
rules:
  - name: user-path
    match: {path: /api/**}
    key: [client_ip, "header:X-User"]
    limit: {algorithm: token_bucket, rate: 2/h, burst: 2}
`, nil)
	s.want(true, "/v1/check", `{"path": "/api/x", "client_ip": "2001:db8::1", "headers": {"X-User": "ann"}}`)
	s.want(true, "/v1/check", `{"rule": "user-path", "key": ["2001:db8::2", "ann"]}`) // the same /64
	s.want(false, "/v1/check", `{"path": "/api//y", "client_ip": "2001:db8::3", "headers": {"x-user": "ann"}}`)
	s.want(true, "/v1/check", `{"rule": "user-path", "key": ["2001:db8::2", "bob"]}`)
}

func TestAllPartsOfARequestMakeKeys(t *testing.T) {
	s := serve(t, `
rules:
  - name: parts
    key: [{part: "cookie:session", on_missing: deny}, {part: "query:q", on_missing: deny}, method, host, path]
    limit: {algorithm: token_bucket, rate: 1/h}
`, nil)
	const whole = `"host": "Shop.example:443", "method": "PUT", "path": "/x", "query": {"q": "1"}`
	s.want(true, "/v1/check", `{`+whole+`, "cookies": {"session": "abc"}}`)
	s.want(false, "/v1/check", `{`+whole+`, "headers": {"Cookie": "a=b; session=abc"}}`)
	s.want(true, "/v1/check", `{`+whole+`, "cookies": {"session": "other"}}`)
	r := s.want(false, "/v1/check", `{"query": {"q": "1"}}`)
	if r.Rule != "parts" || r.Missing != "cookie:session" || r.RetryAfterMS != nil {
		t.Errorf("a request without its cookie: %+v", r.decision)
	}
}

// layered is two rules over all requests, one of which is tight.
const layered = `
rules:
  - name: wide
    key: [client_ip]
    limit: {algorithm: token_bucket, rate: 100/h, burst: 100}
  - name: tight
    key: [client_ip]
    limit: {algorithm: fixed_window, rate: 2/d}
  - name: trial
    key: [client_ip]
    limit: {algorithm: token_bucket, rate: 1/h, burst: 1}
    shadow: true
`

func TestARequestIsChargedToAllRulesOrToNone(t *testing.T) {
	s := serve(t, layered, nil)
	const who = `{"client_ip": "192.0.2.1"}`
	r := s.want(true, "/v1/check", who)
	if r.Rule != "tight" || *r.Remaining != 1 || len(r.Limits) != 3 {
		t.Errorf("the tightest is %s with %d of %d limits", r.Rule, *r.Remaining, len(r.Limits))
	}
	s.want(true, "/v1/check", who)
	for range 5 {
		r = s.want(false, "/v1/check", who)
		if r.Rule != "tight" || r.Reason != "limited" {
			t.Errorf("denied by %s: %s", r.Rule, r.Reason)
		}
	}
	if wide := s.want(true, "/v1/peek", `{"rule": "wide", "key": "192.0.2.1"}`); *wide.Remaining != 98 {
		t.Errorf("denied requests were charged to the other rule: %d of 100 remain", *wide.Remaining)
	}
	i := slices.IndexFunc(r.Limits, func(l limitDecision) bool { return l.Rule == "trial" })
	if !r.Limits[i].Shadow || r.Limits[i].Allowed {
		t.Errorf("the rule in shadow says %+v", r.Limits[i])
	}
}

func TestRequestsThatNoRuleMatches(t *testing.T) {
	const rules = "rules: [{name: login, match: {path: /login}, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"
	r := serve(t, rules, nil).want(true, "/v1/check", `{"path": "/other"}`)
	if r.Reason != "no-rule" || r.Rule != "" || len(r.Limits) != 0 {
		t.Errorf("want allowed without a rule, got %+v", r.decision)
	}
	r = serve(t, "default: deny\n"+rules, nil).want(false, "/v1/check", `{"path": "/other"}`)
	if r.Reason != "no-rule" || r.RetryAfterMS != nil {
		t.Errorf("want a denial without a rule, got %+v", r.decision)
	}
}

func TestCheckKeepsNoLease(t *testing.T) {
	s := serve(t, "rules: [{name: jobs, key: [global], limit: {algorithm: concurrency, max: 1, ttl: 1h}}]", nil)
	for range 3 {
		s.want(true, "/v1/check", `{}`)
	}
	held := s.want(true, "/v1/reserve", `{}`)
	s.want(false, "/v1/check", `{}`)
	s.call("/v1/settle", `{"token": "`+held.Token+`", "cost": 1}`)
	s.want(true, "/v1/check", `{}`)
}

func TestDelaysAndWaits(t *testing.T) {
	s := serve(t, "rules: [{name: queue, key: [client_ip], limit: {algorithm: leaky_bucket, rate: 1/m, queue: 1}}]", nil)
	const who = `{"client_ip": "192.0.2.1"}`
	s.want(true, "/v1/check", who)
	s.want(false, "/v1/check", `{"client_ip": "192.0.2.1", "max_wait_ms": 0}`)
	r := s.want(true, "/v1/check", who)
	if r.DelayMS < 59_000 || r.DelayMS > 60_000 {
		t.Errorf("a delay of %d ms", r.DelayMS)
	}
}

// broken is a store that cannot decide.
type broken struct{ sluice.Store }

var errBroken = errors.New("the store is broken")

func (broken) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errBroken
}

func (broken) DecideAll(context.Context, []sluice.Request, []sluice.Decision) error { return errBroken }

func TestAStoreThatFailsIsDecidedByTheRule(t *testing.T) {
	for fallback, allowed := range map[string]bool{"allow": true, "deny": false} {
		s := serve(t, perClient+"    on_store_error: "+fallback, func(o *Options) {
			o.Decider = deciding(t, o.Decider.Policy(), broken{})
		})
		r := s.want(allowed, "/v1/check", `{"client_ip": "192.0.2.1"}`)
		if r.Reason != "store-error" || r.Rule != "per-client" || r.Capacity != nil {
			t.Errorf("fallback %s: the decision is %+v", fallback, r.decision)
		}
	}
}

func TestErrorsNameTheFieldAndTheRemedy(t *testing.T) {
	s := serve(t, perClient, func(o *Options) { o.MaxBody = 4 << 10 })
	for body, want := range map[string]struct {
		field, remedy string
	}{
		``:                                     {"", "JSON object"},
		`[]`:                                   {"", "client_ip"},
		`"x"`:                                  {"", "client_ip"},
		`{`:                                    {"", "whole JSON object"},
		`{"path": `:                            {"", "whole JSON object"},
		`{"path": "/"} {}`:                     {"", "one JSON object"},
		`{"path": "/",}`:                       {"", "one JSON object"},
		`{"pfad": "/"}`:                        {"pfad", "the fields are method, host"},
		`{"Path": "/"}`:                        {"Path", `"path"`},
		`{"header": {}}`:                       {"header", `"headers"`},
		`{"path": "/", "path": "/b"}`:          {"path", "once"},
		`{"path": 7}`:                          {"path", "a text"},
		"{\"path\": \"/\xff\"}":                {"", "UTF-8"},
		`{"path": "login"}`:                    {"path", "/users/7"},
		`{"path": "/a?b=c"}`:                   {"path", `"query"`},
		`{"cost": "2"}`:                        {"cost", "whole number"},
		`{"cost": 1.5}`:                        {"cost", "whole number"},
		`{"cost": 0}`:                          {"cost", "/v1/peek"},
		`{"cost": -1}`:                         {"cost", "settle or cancel"},
		`{"cost": 9007199254740993}`:           {"cost", "9007199254740992"},
		`{"cost": 1e400}`:                      {"cost", "whole number"},
		`{"max_wait_ms": -1}`:                  {"max_wait_ms", "milliseconds"},
		`{"client_ip": "example.com"}`:         {"client_ip", "192.0.2.1"},
		`{"client_ip": "192.0.2.1:80"}`:        {"client_ip", "without a port"},
		`{"headers": {"X-A": 1}}`:              {"headers", "texts"},
		`{"headers": {"X-A": "", "x-a": ""}}`:  {"headers.x-a", "once"},
		`{"headers": ["X-A"]}`:                 {"headers", "an object of texts"},
		`{"key": "a"}`:                         {"rule", "name the rule"},
		`{"rule": "per-client", "key": 7}`:     {"key", "in their order"},
		`{"rule": "per-clients", "key": "x"}`:  {"rule", "per-client"},
		`{"rule": "per-client"}`:               {"key", "client_ip"},
		`{"rule": "per-client", "path": "/"}`:  {"path", "not both"},
		`{"rule": "per-client", "key": "::g"}`: {"key", "client_ip"},
		`{"ttl_ms": 1}`:                        {"ttl_ms", "the fields are"},
	} {
		for _, path := range []string{"/v1/check", "/v1/peek"} {
			r := s.call(path, body)
			// Keys of an object come in no order, so either spelling may be the second.
			if r.status != http.StatusBadRequest || !strings.EqualFold(r.Field, want.field) || !strings.Contains(r.Remedy, want.remedy) || r.Detail == "" {
				t.Errorf("%s %s: status %d, field %q, detail %q, remedy %q", path, body, r.status, r.Field, r.Detail, r.Remedy)
			}
		}
	}
}

func TestBoundsWhatItReads(t *testing.T) {
	s := serve(t, perClient, func(o *Options) { o.MaxBody = 256 << 10 })
	if r := s.call("/v1/check", `{"path": "/`+strings.Repeat("x", 300<<10)+`"}`); r.status != http.StatusRequestEntityTooLarge || r.Remedy == "" {
		t.Errorf("a large body: %+v", r)
	}
	for _, deep := range []string{strings.Repeat("[", 200<<10), `{"headers": ` + strings.Repeat(`{"a":`, 40<<10), `{"x": ` + strings.Repeat("[", 200<<10)} {
		if r := s.call("/v1/check", deep); r.status != http.StatusBadRequest || r.Detail == "" {
			t.Errorf("deep JSON: %+v", r)
		}
	}
	for name, value := range map[string]string{"Content-Encoding": "gzip", "Content-Type": "text/xml"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/check", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(name, value)
		if got := s.send(r); got.status != http.StatusUnsupportedMediaType || got.Remedy == "" {
			t.Errorf("%s: %s should be refused with a remedy: %+v", name, value, got)
		}
	}
}

func TestHasNothingButItsCalls(t *testing.T) {
	s := serve(t, perClient, nil)
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/healthcheck", "/metrics", "/debug/pprof/", "/v1", "/v1/check/", "/v2/check"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.send(r); got.status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.status)
		}
	}
	for _, path := range []string{"/v1/check", "/v1/reset"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.send(r); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != http.MethodPost {
			t.Errorf("GET %s answers %d, Allow %q", path, got.status, got.header.Get("Allow"))
		}
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("an API without parts was made")
	}
}

// A caller gives all values of a name as a list. Repeated values, and headers in other spellings, have no key.
func TestSeveralValues(t *testing.T) {
	s := serve(t, `rules:
  - {name: header, match: {path: /h}, key: 'header:X-Api-Key', limit: {algorithm: token_bucket, rate: 1000/m}}
  - {name: cookie, match: {path: /c}, key: 'cookie:session', limit: {algorithm: token_bucket, rate: 1000/m}}
  - {name: query, match: {path: /q}, key: {part: 'query:k', on_repeated: last}, limit: {algorithm: token_bucket, rate: 1000/m}, deny: {key: [[bad]]}}
`, nil)
	for body, allowed := range map[string]bool{
		`{"path": "/h", "headers": {"x-api-key": "a"}}`:                                        true,
		`{"path": "/h", "headers": {"x-api-key": ["a"]}}`:                                      true,
		`{"path": "/h", "headers": {"x-api-key": ["a", "b"]}}`:                                 false,
		`{"path": "/h", "headers": {"x-api-key": "a", "x-api-key": "b"}}`:                      false,
		`{"path": "/h", "headers": {"x-api-key": "a", "X_Api_Key": "b"}}`:                      false,
		`{"path": "/h", "headers": {"X.Api_Key": "b"}}`:                                        false,
		`{"path": "/h", "headers": {"x-api-key": []}}`:                                         true,
		`{"path": "/c", "cookies": {"session": ["a", "b"]}}`:                                   false,
		`{"path": "/c", "cookies": {"session": "a"}, "headers": {"cookie": "session=b"}}`:      false,
		`{"path": "/c", "cookies": {"session": "a"}, "headers": {"cookie": "x=1; session=a"}}`: true,
		`{"path": "/c", "headers": {"cookie": ["session=b", "session=c"]}}`:                    false,
		`{"path": "/c", "headers": {"cookie": ["session=b", "other=c"]}}`:                      true,
		`{"path": "/q", "query": {"k": ["bad", "good"]}}`:                                      true,
		`{"path": "/q", "query": {"k": ["good", "bad"]}}`:                                      false,
	} {
		s.want(allowed, "/v1/peek", body)
	}
	if r := s.want(false, "/v1/check", `{"path": "/h", "headers": {"X-Api-Key": ["a", "b"]}}`); r.Reason != "repeated-key" || r.Missing != "header:X-Api-Key" {
		t.Errorf("a repeated header should have no key: %+v", r)
	}
}
