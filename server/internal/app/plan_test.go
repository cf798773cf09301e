package app

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicehq/sluice/server/internal/config"
)

// everyDoor has all listeners through which a plan can come, and a rule with 5 units a day, 50 with the plan gold.
const everyDoor = `version: 1
listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0', auth: '127.0.0.1:0', resp: '127.0.0.1:0', grpc: '127.0.0.1:0'}
plans: {gold: {tenants: {rate: 50/d}, envoy: {rate: 50/d}}, trial: {}}
rules:
  - {name: tenants, match: {path: /t}, key: "header:X-Tenant", limit: {algorithm: token_bucket, rate: 5/d}}
  - {name: envoy, descriptor: {domain: edge, entries: [tenant, plan]}, key: "descriptor:tenant", limit: {algorithm: token_bucket, rate: 5/d}}
`

var quota = regexp.MustCompile(`;q=(\d+)`)

// bearer returns a token with claims, which nobody has signed.
func bearer(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return "Bearer " + part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + ".c2ln"
}

// Through every door, a plan counts only if the hop before Sluice may name it. Several plans, and unknown ones, never lead to the
// numbers of a plan; they are counted, and refused if the file wants that.
func TestPlansOfTrustedProxies(t *testing.T) {
	t.Parallel()
	type request struct {
		header  []string
		gold    bool // a trusted hop has named the plan gold
		unknown bool
	}
	for from, requests := range map[string][]request{
		"header:X-Plan": {
			{nil, false, false},
			{[]string{"X-Plan", "gold"}, true, false},
			{[]string{"x-plan", "gold"}, true, false},
			{[]string{"X-Plan", "trial"}, false, false},
			{[]string{"X-Plan", "Gold"}, false, true},
			{[]string{"X-Plan", "golden"}, false, true},
			{[]string{"X-Plan", "gold", "X-Plan", "gold"}, false, true},
			{[]string{"X-Plan", "trial", "X-Plan", "gold"}, false, true},
			{[]string{"X-Plan", "gold, trial"}, false, true},
			{[]string{"X-Plan", "gold", "Connection", "X-Plan"}, false, false},
			{[]string{"X_Plan", "gold"}, false, false},
		},
		"claim:plan": {
			{[]string{"Authorization", bearer(`{"plan": "gold"}`)}, true, false},
			{[]string{"Authorization", bearer(`{"plan": "platinum"}`)}, false, true},
			{[]string{"Authorization", bearer(`{"plan": ["gold"]}`)}, false, false},
			{[]string{"Authorization", bearer(`{"plans": "gold"}`), "X-Plan", "gold"}, false, false},
			{[]string{"Authorization", bearer(`{"plan": "gold"}`), "Authorization", bearer(`{"plan": "gold"}`)}, false, true},
		},
	} {
		for _, trusted := range []bool{true, false} {
			for _, unknown := range []string{"rule", "deny"} {
				proxies := "192.0.2.0/24"
				if trusted {
					proxies = "127.0.0.1"
				}
				r := start(t, parse(t, fmt.Sprintf("%splan_from: %q\ntrusted_proxies: %s\nunknown_plan: %s\n", everyDoor, from, proxies, unknown)), nil)
				counted := 0
				for i, q := range requests {
					res, body := r.send(Proxy, http.MethodGet, "/t", "", append([]string{"X-Tenant", fmt.Sprint("p", i)}, q.header...)...)
					want, status := "5", http.StatusOK
					switch {
					case trusted && q.gold:
						want = "50"
					case trusted && q.unknown:
						if counted++; unknown == "deny" {
							want, status = "", http.StatusForbidden
						}
					}
					got := strings.Join(quota.FindStringSubmatch(res.Header.Get("RateLimit-Policy")), "")
					if res.StatusCode != status || got != strings.TrimSuffix(";q="+want+want, ";q=") {
						t.Errorf("%s from %s, unknown plans: %s, %q: %d, quota %q; want %d and %s units\n%s", from, proxies, unknown, q.header, res.StatusCode, got, status, want, body)
					}
				}
				if got := r.figure("sluice_unknown_plans_total"); got != fmt.Sprint(counted) {
					t.Errorf("%s from %s: %s unknown plans are counted, want %d", from, proxies, got, counted)
				}
				r.end()
			}
		}
	}
}

// A gateway that reports requests, a caller of the API, a Redis client and Envoy name the plan by themselves. Answers say which plan
// counts, and where it comes from.
func TestPlansThroughEveryDoor(t *testing.T) {
	t.Parallel()
	text := everyDoor + "plan_from: ['header:X-Plan', 'descriptor:plan']\ntrusted_proxies: 127.0.0.1\n"
	r := start(t, parse(t, text), func(o *Options) {
		o.Load = func() (*config.File, error) { return config.Parse("sluice.yaml", []byte(text)) }
	})
	var answer struct {
		UnknownPlan bool `json:"unknown_plan"`
		Explanation string
		Limits      []struct {
			Capacity   int
			From, Plan string
		}
	}
	api := func(body string) string {
		t.Helper()
		res, got := r.send(API, http.MethodPost, "/v1/peek", body, "Content-Type", "application/json")
		answer.UnknownPlan, answer.Limits = false, nil
		if err := json.Unmarshal([]byte(got), &answer); err != nil || res.StatusCode != http.StatusOK || len(answer.Limits) != 1 {
			t.Fatalf("%s is answered %d %s, %v; want one limit", body, res.StatusCode, got, err)
		}
		l := answer.Limits[0]
		if l.Plan != "" && !strings.Contains(answer.Explanation, "by plan "+l.Plan) {
			t.Errorf("%s is explained as %q, want the plan", body, answer.Explanation)
		}
		return fmt.Sprint(l.Capacity, " ", l.From, " ", l.Plan, " ", answer.UnknownPlan)
	}
	byAPI := map[string]string{
		`{"path": "/t", "headers": {"X-Tenant": "a"}}`:                                  "5   false",
		`{"path": "/t", "headers": {"X-Tenant": "a", "X-Plan": "gold"}}`:                "50 plan gold false",
		`{"path": "/t", "headers": {"X-Tenant": "a", "x-plan": ["gold", "gold"]}}`:      "5   true",
		`{"path": "/t", "headers": {"X-Tenant": "a", "X_Plan": "gold"}}`:                "5   true",
		`{"path": "/t", "headers": {"X-Tenant": "a"}, "attributes": {"plan": "gold"}}`:  "5   false",
		`{"rule": "tenants", "key": ["a"]}`:                                             "5   false",
		`{"rule": "tenants", "key": ["a"], "plan": "gold"}`:                             "50 plan gold false",
		`{"rule": "tenants", "key": ["a"], "plan": "trial"}`:                            "5 plan trial false",
		`{"rule": "tenants", "key": ["a"], "plan": "GOLD"}`:                             "5   true",
		`{"rule": "tenants", "key": ["partner"], "plan": "trial"}`:                      "50 call gold false",
		`{"path": "/t", "headers": {"X-Tenant": "partner", "X-Plan": "none of these"}}`: "50 call gold false",
	}
	if res, got := r.send(Admin, http.MethodPut, "/v1/overrides", `{"rule": "tenants", "key": ["partner"], "plan": "gold"}`, "Content-Type", "application/json"); res.StatusCode != http.StatusOK {
		t.Fatalf("an override with a plan is answered %d %s", res.StatusCode, got)
	}
	for body, want := range byAPI {
		if got := api(body); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	for query, want := range map[string]string{
		"": `"role":"enforced","allowed":true,"capacity":5,`, "&plan=gold": `"from":"plan","plan":"gold","allowed":true,"capacity":50,`,
		"&plan=gold&plan=trial": `"field":"?plan"`, "&plans=gold": "and plan",
	} {
		if _, got := r.send(API, http.MethodGet, "/v1/usage?rule=tenants&key=a"+query, ""); !strings.Contains(got, want) {
			t.Errorf("the usage with %q is %s, want %s", query, got, want)
		}
	}
	if res, got := r.send(API, http.MethodPost, "/v1/check", `{"path": "/t", "plan": "gold"}`, "Content-Type", "application/json"); res.StatusCode != http.StatusBadRequest || !strings.Contains(got, `"field":"plan"`) || !strings.Contains(got, "plan_from") {
		t.Errorf("a plan beside a described request is answered %d %s", res.StatusCode, got)
	}
	if res, got := r.send(Admin, http.MethodPut, "/v1/overrides", `{"rule": "tenants", "key": ["a"], "plan": "golf"}`, "Content-Type", "application/json"); res.StatusCode != http.StatusBadRequest || !strings.Contains(got, `"field":"plan"`) || !strings.Contains(got, `did you mean \"gold\"?`) {
		t.Errorf("an override with an unknown plan is answered %d %s", res.StatusCode, got)
	}
	if _, got := r.send(Admin, http.MethodGet, "/v1/overrides?rule=tenants", ""); !strings.Contains(got, `"key":["partner"],"plan":"gold"`) {
		t.Errorf("the overrides are listed as %s", got)
	}
	// A gateway reports a request with the header that it has set.
	res, body := r.send(Auth, http.MethodGet, "/auth", "", "X-Original-Method", "GET", "X-Original-URI", "/t", "X-Original-Host", "a.example", "X-Real-IP", "192.0.2.1", "X-Tenant", "b", "X-Plan", "gold")
	if got := res.Header.Get("RateLimit-Policy"); res.StatusCode != http.StatusOK || !strings.Contains(got, ";q=50") {
		t.Errorf("forward-auth answers %d, %s, %s", res.StatusCode, got, body)
	}
	c, in := r.connect(RESP)
	for command, want := range map[string]string{
		"SLUICE.CHECK tenants c PLAN gold PEEK": "capacity :50", "SLUICE.CHECK tenants c PLAN golf PEEK": "capacity :5", "SLUICE.CHECK tenants partner PEEK": "capacity :50",
	} {
		if got := lines(t, c, in, command+"\r\n", 27); !strings.Contains(got, want+" ") {
			t.Errorf("%s is answered %s, want %s", command, got, want)
		}
	}
	if got := lines(t, c, in, "SLUICE.CHECK tenants c PLAN\r\n", 1); !strings.HasPrefix(got, "-ERR rule tenants: PLAN is not expected") {
		t.Errorf("an unfinished PLAN is answered %s", got)
	}
	for plan, want := range map[string]uint32{"gold": 50, "": 5, "silver": 5} {
		v, err := ratelimitpb.NewRateLimitServiceClient(r.dialGRPC(insecure.NewCredentials())).ShouldRateLimit(t.Context(), &ratelimitpb.RateLimitRequest{
			Domain: "edge", Descriptors: []*commonpb.RateLimitDescriptor{{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "tenant", Value: "d"}, {Key: "plan", Value: plan}}}},
		})
		if err != nil || v.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit() != want {
			t.Errorf("a descriptor with plan %q is answered %v, %v; want %d a day", plan, v, err, want)
		}
	}
	// The file changes the plan; an override that names it follows, and one whose plan is gone is not in force.
	text = strings.Replace(text, "gold: {tenants: {rate: 50/d}", "gold: {tenants: {rate: 60/d}", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := api(`{"rule": "tenants", "key": ["partner"]}`); got != "60 call gold false" {
		t.Errorf("after the plan has changed, an override has %q", got)
	}
	text = strings.Replace(text, "plans: {gold:", "plans: {platinum:", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := api(`{"rule": "tenants", "key": ["partner"]}`); got != "5   false" {
		t.Errorf("after the plan is gone, an override has %q", got)
	}
	if _, got := r.send(Admin, http.MethodGet, "/v1/overrides?rule=tenants", ""); !strings.Contains(got, `"not_in_force":"`) {
		t.Errorf("an override whose plan is gone is listed as %s", got)
	}
}
