package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/config"
)

const aheadRules = `rules:
  - {name: tenants, match: {path: /t}, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: 5/d, starts: first_request}, ahead: {units: 20, for: 24h}}
  - {name: plain, match: {path: /p}, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: 5/d}}
`

// ahead gives units ahead to acme.
func (r *running) ahead(rest string, header ...string) (reply, string) {
	r.t.Helper()
	return r.send(Admin, http.MethodPost, "/v1/grant", `{"rule": "tenants", "key": ["acme"], "ahead": true`+rest+`}`, append([]string{"Content-Type", "application/json"}, header...)...)
}

// aheadOf returns what acme has used of a rule's limit, and what it has ahead.
func (r *running) aheadOf(rule string) string {
	r.t.Helper()
	_, text := r.send(Admin, http.MethodGet, "/v1/usage?rule="+rule+"&key=acme", "")
	var u struct {
		Allowed bool
		Limits  []struct{ Used int }
		Ahead   *struct {
			Units, Used, Remaining int
			Until                  time.Time
		}
	}
	if err := json.Unmarshal([]byte(text), &u); err != nil || len(u.Limits) != 1 {
		r.t.Fatalf("usage is answered %s, %v", text, err)
	}
	got := fmt.Sprintf("%v, %d used", u.Allowed, u.Limits[0].Used)
	if x := u.Ahead; x != nil {
		got += fmt.Sprintf(", %d+%d of %d ahead for %v", x.Used, x.Remaining, x.Units, time.Until(x.Until).Round(time.Hour))
	}
	return got
}

// Wrong calls about units ahead name the field and the remedy, and change nothing.
func TestWrongUnitsAheadChangeNothing(t *testing.T) {
	r := start(t, parse(t, free+aheadRules), func(o *Options) { o.Token = "the-token-of-operators" })
	bearer := []string{"Authorization", "Bearer the-token-of-operators"}
	if res, text := r.ahead(`, "units": 8`, bearer...); res.StatusCode != http.StatusOK {
		t.Fatalf("a grant is answered %d %s", res.StatusCode, text)
	}
	for i, c := range []struct {
		rest        string
		header      []string
		status      int
		field, says string
	}{
		{`, "units": 13`, bearer, 422, "units", `8 units ahead, used ones included, and rule \"tenants\" gives 20 at most`},
		{`, "units": 13`, bearer, 422, "units", "give at most 12 now"},
		{`, "units": 1, "for_ms": 86401000`, bearer, 422, "until", "24h0m0s at most"},
		{`, "units": 1, "until": "2099-01-01T00:00:00Z"`, bearer, 422, "until", "ahead.for of the rule"},
		{`, "units": 1, "until": "2020-01-01T00:00:00Z"`, bearer, 400, "until", "a time to come"},
		{`, "units": 1, "until": "2099-01-01T00:00:00Z", "for_ms": 5`, bearer, 400, "until", "one of them"},
		{`, "units": 1, "for_ms": 0`, bearer, 400, "for_ms", "from 1"},
		{`, "units": -1`, bearer, 400, "units", "from 1"},
		{`, "units": 1`, nil, 401, "", "admin token"},
	} {
		if res, text := r.ahead(c.rest, c.header...); res.StatusCode != c.status || !strings.Contains(text, c.says) || c.field != "" && !strings.Contains(text, `"field":"`+c.field+`"`) {
			t.Errorf("call %d is answered %d %s; want %d about %q that has %q", i, res.StatusCode, text, c.status, c.field, c.says)
		}
	}
	for body, says := range map[string]string{
		`{"rule": "plain", "key": ["acme"], "units": 1, "ahead": true}`:                                 "such as ahead: {units: 1000, for: 24h}",
		`{"rule": "tenants", "key": ["acme"], "units": 1, "for_ms": 1000}`:                              "have no end",
		`{"rule": "tenants", "key": ["acme"], "units": 1, "until": "2099-01-01T00:00:00Z"}`:             "have no end",
		`{"rule": "tenants", "key": ["` + strings.Repeat("k", 65536) + `"], "units": 1, "ahead": true}`: "shorten it to 65535 bytes",
	} {
		if res, text := r.send(Admin, http.MethodPost, "/v1/grant", body, append([]string{"Content-Type", "application/json"}, bearer...)...); res.StatusCode < 400 || !strings.Contains(text, says) {
			t.Errorf("%s is answered %d %s; want %q", body, res.StatusCode, text, says)
		}
	}
	if _, text := r.send(Admin, http.MethodGet, "/v1/usage?rule=tenants&key=acme", "", bearer...); !strings.Contains(text, `"ahead":{"units":8,"used":0,"remaining":8,`) {
		t.Errorf("after wrong calls: %s", text)
	}
}

// Units ahead pay when the limit denies, and answers and logs say so. Grants add up, a repeated call counts once, and the later end
// holds. They last over a reload and a restart with a file of states, with what is used of them. Each grant has its record.
func TestUnitsAheadLast(t *testing.T) {
	dir := t.TempDir()
	log, access := filepath.Join(dir, "audit.log"), filepath.Join(dir, "access.log")
	text := free + "audit: {file: " + log + "}\naccess_log: {file: " + access + "}\nstore: {memory: {file: " + filepath.Join(dir, "states") + "}}\n" + aheadRules
	run := func() *running {
		return start(t, parse(t, text), func(o *Options) {
			o.Load = func() (*config.File, error) { return config.Parse("sluice.yaml", []byte(text)) }
		})
	}
	r := run()
	check := func(cost int, want string) {
		t.Helper()
		_, text := r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"rule": "tenants", "key": ["acme"], "cost": %d}`, cost), "Content-Type", "application/json")
		if !strings.Contains(text, want) {
			t.Errorf("a cost of %d is answered %s; want %s", cost, text, want)
		}
	}
	expect := func(when, want string) {
		t.Helper()
		if got := r.aheadOf("tenants"); got != want {
			t.Errorf("%s: %s; want %s", when, got, want)
		}
	}
	shows := func(method, path, body, want string) {
		t.Helper()
		if _, text := r.send(Admin, method, path, body, "Content-Type", "application/json"); !strings.Contains(text, want) {
			t.Errorf("%s is answered %s; want %s", path, text, want)
		}
	}
	const list, explain = "/v1/overrides?rule=tenants&ahead=true", `{"path": "/t", "headers": {"X-Tenant": "acme"}}`
	shows(http.MethodGet, list, "", `{"overrides":[]}`)
	check(5, `"allowed":true`)
	check(1, `"allowed":false`)
	for _, key := range []string{"k1", "k1", "k2"} {
		if res, text := r.ahead(`, "units": 4, "for_ms": 36000000, "note": "ticket 13"`, "Idempotency-Key", key, "Sluice-Operator", "ann@desk"); res.StatusCode != http.StatusOK {
			t.Errorf("a grant is answered %d %s", res.StatusCode, text)
		}
	}
	expect("after two grants", "true, 5 used, 0+8 of 8 ahead for 10h0m0s")
	check(9, `"allowed":false`)
	check(3, `by units ahead: 5 of 8 remain until `)
	check(1, `"remaining":4,`)
	check(1, `"ahead":true,`)
	expect("after three requests", "true, 5 used, 5+3 of 8 ahead for 10h0m0s")
	shows(http.MethodGet, list, "", `"key":["acme"],"ahead":{"units":8,"used":5,"remaining":3,"until":"`)
	shows(http.MethodPost, "/v1/explain", explain, `"ahead":{"units":8,"until":"`)
	r.ahead(`, "units": 2`)
	expect("with a later end", "true, 5 used, 5+5 of 10 ahead for 24h0m0s")
	r.ahead(`, "units": 1, "for_ms": 1000`)
	expect("with an earlier end", "true, 5 used, 5+6 of 11 ahead for 24h0m0s")
	text = strings.Replace(text, "ahead: {units: 20, for: 24h}", "floor: 0", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("without a bound in the rule", "false, 5 used")
	shows(http.MethodGet, list, "", `"not_in_force":"the rule names no bound for units ahead, or they have ended"`)
	text = strings.Replace(text, "floor: 0", "ahead: {units: 10, for: 12h}", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("with a bound again", "true, 5 used, 5+6 of 11 ahead for 24h0m0s")
	r.end()
	r = run()
	expect("after a restart", "true, 5 used, 5+6 of 11 ahead for 24h0m0s")
	check(6, `"allowed":true`)
	check(1, `"allowed":false`)
	r.send(Admin, http.MethodPost, "/v1/reset", `{"rule": "tenants", "key": ["acme"]}`, "Content-Type", "application/json")
	expect("after a reset", "true, 0 used, 11+0 of 11 ahead for 24h0m0s")
	check(5, `"allowed":true`)
	for range 2 {
		if res, text := r.send(Admin, http.MethodDelete, "/v1/grant", `{"rule": "tenants", "key": ["acme"]}`, "Content-Type", "application/json"); res.StatusCode != http.StatusOK {
			t.Errorf("a withdrawal is answered %d %s", res.StatusCode, text)
		}
	}
	expect("after a withdrawal", "false, 5 used")
	r.ahead(`, "units": 10`)
	expect("after a new grant", "true, 5 used, 0+10 of 10 ahead for 12h0m0s")
	if _, text := r.send(Admin, http.MethodGet, "/v1/overrides", ""); !strings.HasPrefix(text, `{"rules":[],`) {
		t.Errorf("these rules have overrides: %s", text)
	}
	r.end()
	for file, wants := range map[string]map[string]int{
		log: {
			`"action":"ahead","by":"no proof","claimed":"ann@desk"`: 4, `"units":4`: 4, `"note":"ticket 13","result":"begun"`: 2, `"action":"withdraw"`: 4, "acme": 0,
		},
		access: {`"ahead":true`: 4},
	} {
		records, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for want, n := range wants {
			if got := strings.Count(string(records), want); got != n {
				t.Errorf("%s has %s %d times, want %d:\n%s", filepath.Base(file), want, got, n, records)
			}
		}
	}
}
