package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
)

const overridable = `rules:
  - {name: tenants, match: {path: /t}, key: "header:X-Tenant", limit: {algorithm: token_bucket, rate: 5/d}}
  - {name: nets, match: {path: /n}, key: client_ip, limits: [{algorithm: fixed_window, rate: 5/d}, {algorithm: sliding_log, rate: 9/d}]}
  - {name: drop, match: {path: /d}, always: true}
`

// Calls about overrides need a token, name the field and the remedy if they are wrong, and then change nothing.
func TestWrongOverridesChangeNothing(t *testing.T) {
	const token = "the-token-of-operators"
	r := start(t, parse(t, free+overridable), func(o *Options) { o.Token = token })
	bearer := []string{"Authorization", "Bearer " + token}
	one := func(rest string) string { return `{"rule": "tenants", "key": ["acme"]` + rest + `}` }
	good := one(`, "limit": {"rate": "9/d"}`)
	many := strings.Repeat(good+",", 1000) + good
	for _, c := range []struct {
		listener, body string
		header         []string
		status         int
		field, says    string
	}{
		{API, good, nil, 401, "", "admin token"},
		{Admin, good, nil, 401, "", "admin token"},
		{API, good, []string{"Authorization", "Bearer another"}, 401, "", ""},
		{Admin, one(``), bearer, 400, "limit", "give one of them"},
		{Admin, one(`, "limit": {}`), bearer, 200, "", ""}, // all numbers are the rule's
		{Admin, one(`, "limit": {"rate": "9/d"}, "deny": true`), bearer, 400, "deny", "give one of them"},
		{Admin, one(`, "limit": {}, "limits": [{}]`), bearer, 400, "limits", "limit too"},
		{Admin, one(`, "limit": {"rate": "9"}`), bearer, 400, "limit.rate", ""},
		{Admin, one(`, "limit": {"rate": "9/d", "rates": 1}`), bearer, 400, "limit.rates", "did you mean"},
		{Admin, one(`, "limit": {"burst": -1}`), bearer, 400, "limit.burst", ""},
		{Admin, one(`, "limit": {"max": 4}`), bearer, 400, "limit.max", "concurrency"},
		{Admin, one(`, "limits": [{}, {}]`), bearer, 400, "limits", "give as many"},
		{Admin, one(`, "limit": 5`), bearer, 400, "limit", `{\"rate\"`},
		{Admin, one(`, "limits": 5`), bearer, 400, "limits[0]", ""},
		{Admin, one(`, "limit": {"burst": 99999999999999999999}`), bearer, 400, "limit.burst", "too large"},
		{Admin, one(`, "limit": {"rate": "99999999999999999999/m"}`), bearer, 400, "limit.rate", "too large"},
		{Admin, one(`, "unlimited": "yes"`), bearer, 400, "unlimited", "true or false"},
		{Admin, one(`, "plan": 5`), bearer, 400, "plan", "a text"},
		{Admin, ``, bearer, 400, "", "rule, key, limit"},
		{Admin, `[]`, bearer, 400, "", "rule, key, limit"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "until": "2020-01-01T00:00:00Z"`), bearer, 400, "until", "a time to come"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "for_ms": 0`), bearer, 400, "for_ms", "from 1"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "for_ms": 1.5`), bearer, 400, "for_ms", "a whole number"},
		{Admin, `{"rule": "tenants", "key": ["` + strings.Repeat("k", 65536) + `"], "deny": true}`, bearer, 400, "key", "65535 bytes"},
		{Admin, `{"rule": "tenants", "key": [null], "deny": true}`, bearer, 400, "key", "a list of texts"},
		{Admin, "{\"rule\": \"tenants\", \"key\": [\"M\xfcller\"], \"deny\": true}", bearer, 400, "", "not UTF-8"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "for_ms": 5, "until": "2099-01-01T00:00:00Z"`), bearer, 400, "until", "one of them"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "until": "Monday"`), bearer, 400, "until", "2030-01-31T18:00:00Z"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "until": 1700000000`), bearer, 400, "until", "2030-01-31T18:00:00Z"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "note": "` + strings.Repeat("x", 900_000) + `"`), bearer, 400, "note", "512"}, // in a moment
		{Admin, one(`, "limit": {"rate": "9/d"}, "note": "` + strings.Repeat("x", 600) + `"`), bearer, 400, "note", "512"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "note": "a\nb"`), bearer, 400, "note", "one line"},
		{Admin, one(`, "limit": {"rate": "9/d"}, "nots": ""`), bearer, 400, "nots", "the fields are"},
		{Admin, `{"rule": "tenant", "key": ["acme"], "deny": true}`, bearer, 400, "rule", "the rules are"},
		{Admin, `{"rule": "drop", "key": [], "deny": true}`, bearer, 400, "limit", "has no limits"},
		{Admin, `{"key": ["acme"], "deny": true}`, bearer, 400, "rule", "name the rule"},
		{Admin, `{"rule": "tenants", "key": ["a", "b"], "deny": true}`, bearer, 400, "key", "header:X-Tenant"},
		{Admin, `{"rule": "nets", "key": ["nowhere"], "deny": true}`, bearer, 400, "key", ""},
		{Admin, `{"overrides": [` + good + `, ` + one(`, "deny": true`) + `]}`, bearer, 400, "overrides[1].key", "overrides[0]"},
		{Admin, `{"overrides": [` + good + `, {"rule": "tenants", "key": ["b"], "limit": {"rate": "x"}}]}`, bearer, 400, "overrides[1].limit.rate", "nothing of the batch"},
		{Admin, `{"overrides": [` + many + `]}`, bearer, 400, "overrides", "1 to 1000"},
		{Admin, `{"overrides": []}`, bearer, 400, "overrides", "1 to 1000"},
		{Admin, `{"overrides": 5}`, bearer, 400, "overrides", "a list"},
		{Admin, `{"overrides": [` + good + `, 5]}`, bearer, 400, "overrides[1]", "rule, key, limit"},
		{Admin, `{"overrides": [` + good + `, ` + one(`, "limit": {}, "until": "Monday"`) + `]}`, bearer, 400, "overrides[1].until", "nothing of the batch"},
		{Admin, `{"overrides": [` + good + `], "rule": "tenants"}`, bearer, 400, "overrides", "its own fields"},
	} {
		before := r.engine.overrides.Len()
		res, text := r.send(c.listener, http.MethodPut, "/v1/overrides", c.body, append([]string{"Content-Type", "application/json"}, c.header...)...)
		var p struct{ Field, Detail, Remedy string }
		if err := json.Unmarshal([]byte(text), &p); err != nil || res.StatusCode != c.status || p.Field != c.field && c.field != "" {
			t.Errorf("%.200s is answered %d %s; want %d and field %q", c.body, res.StatusCode, text, c.status, c.field)
		}
		if c.status == 400 && (p.Detail == "" || p.Remedy == "" && c.says != "") {
			t.Errorf("%.200s is answered without a detail and a remedy: %s", c.body, text)
		}
		if !strings.Contains(strings.ToLower(text), c.says) && !strings.Contains(text, c.says) {
			t.Errorf("%.200s is answered %s, which lacks %q", c.body, text, c.says)
		}
		if n := r.engine.overrides.Len(); c.status != 200 && n != before {
			t.Errorf("%.200s is refused, and there are %d overrides in place of %d", c.body, n, before)
		}
	}
	for query, want := range map[string]string{
		"rule=tenant": `"field":"?rule"`, "rule=tenants&rule=nets": `"field":"?rule"`, "key=acme": `"field":"?rule"`, "rule=tenants&prefix=a&key=acme": `"field":"?key"`,
		"rule=tenants&key=a&key=b": `"field":"?key"`, "rule=tenants&most=0": `"field":"?most"`, "rule=tenants&from=x": `"field":"?from"`, "rule=tenants&form=x": `"field":"?form"`, "rule=%zz": `"field":"?"`,
	} {
		if res, text := r.send(Admin, http.MethodGet, "/v1/overrides?"+query, "", bearer...); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, `"remedy":"`) {
			t.Errorf("a list of %s is answered %d %s, want 400 and %s", query, res.StatusCode, text, want)
		}
	}
	if res, text := r.send(Admin, http.MethodDelete, "/v1/overrides", `{"rule": "tenant", "key": ["acme"]}`, bearer...); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, "the rules are") {
		t.Errorf("an override of a rule that never was is removed with the answer %d %s", res.StatusCode, text)
	}
}

// An override lasts over a reload, and over a restart with a file of states. Its record is in the audit log before the answer, and the
// same call with the same Idempotency-Key is made once. When a rule changes, an override that fits no longer says so.
func TestOverridesLast(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	text := free + "audit: {file: " + log + "}\nstore: {memory: {file: " + filepath.Join(dir, "states") + "}}\n" + overridable
	run := func() *running {
		return start(t, parse(t, text), func(o *Options) {
			o.Load = func() (*config.File, error) { return config.Parse("sluice.yaml", []byte(text)) }
		})
	}
	r := run()
	call := func(method, path, body string, want int, header ...string) string {
		t.Helper()
		res, got := r.send(Admin, method, path, body, append([]string{"Content-Type", "application/json", "Sluice-Operator", "ann@desk"}, header...)...)
		if res.StatusCode != want {
			t.Errorf("%s %s %s is answered %d %s, want %d", method, path, body, res.StatusCode, got, want)
		}
		return got
	}
	remaining := func(tenant string) string {
		t.Helper()
		_, text := r.send(API, http.MethodPost, "/v1/peek", fmt.Sprintf(`{"rule": "tenants", "key": [%q]}`, tenant), "Content-Type", "application/json")
		var answer struct {
			Reason string
			Limits []struct {
				Capacity, Remaining int
				From                string
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Limits) > 1 {
			t.Fatalf("a peek is answered %s, %v; want one limit at most", text, err)
		}
		if len(answer.Limits) == 0 {
			return answer.Reason
		}
		l := answer.Limits[0]
		return strings.TrimSpace(fmt.Sprint(l.Remaining, "/", l.Capacity, " ", l.From))
	}
	expect := func(what, tenant, want string) {
		t.Helper()
		if got := remaining(tenant); got != want {
			t.Errorf("%s, %s has %s, want %s", what, tenant, got, want)
		}
	}
	const body = `{"overrides": [{"rule": "tenants", "key": "acme", "limit": {"rate": "50/d"}, "note": "sale"}, {"rule": "tenants", "key": "foe", "deny": true}]}`
	call("POST", "/v1/peek", `{"rule": "tenants", "key": ["acme"]}`, 200)
	if got := call("PUT", "/v1/overrides", body, 200, "Idempotency-Key", "k1"); strings.Count(got, `"existed":false,"kept":"file"`) != 2 {
		t.Errorf("new overrides are answered %s", got)
	}
	if got := call("PUT", "/v1/overrides", body, 200, "Idempotency-Key", "k1"); strings.Contains(got, `"existed":true`) {
		t.Errorf("a repeated call is made twice: %s", got)
	}
	if got := call("PUT", "/v1/overrides", body, 200); strings.Count(got, `"existed":true`) != 2 {
		t.Errorf("a second call is answered %s", got)
	}
	expect("by call", "acme", "50/50 call")
	expect("by call", "foe", "listed")
	expect("without an override", "other", "5/5")
	text = strings.Replace(text, "rate: 5/d", "rate: 6/d, burst: 60", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("after a reload", "acme", "60/60 call") // a number that is not given is the rule's
	expect("after a reload", "other", "60/60")
	r.end()
	r = run()
	expect("after a restart", "acme", "60/60 call")
	expect("after a restart", "foe", "listed")
	if got := call("GET", "/v1/overrides?rule=tenants&key=acme", "", 200); !strings.Contains(got, `"note":"sale","by":"ann@desk","at":"20`) {
		t.Errorf("after a restart, the override is %s", got)
	}
	text = strings.Replace(text, "algorithm: token_bucket, rate: 6/d, burst: 60", "algorithm: concurrency, max: 3", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	expect("when the rule has another algorithm", "acme", "3/3")
	if got := call("GET", "/v1/overrides?rule=tenants", "", 200); !strings.Contains(got, `"not_in_force":"`) {
		t.Errorf("an override that does not fit is listed as %s", got)
	}
	text = strings.Replace(text, "name: tenants", "name: customers", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := call("GET", "/v1/overrides", "", 200); got != `{"rules":["tenants"],"kept":"file"}`+"\n" {
		t.Errorf("without its rule, the overrides are of %s", got)
	}
	call("DELETE", "/v1/overrides", `{"overrides": [{"rule": "tenants", "key": "acme"}, {"rule": "tenants", "key": "foe"}]}`, 200)
	if n := r.engine.overrides.Len(); n != 0 {
		t.Errorf("%d overrides are left", n)
	}
	r.end()
	records, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{
		`"action":"override","by":"no proof","claimed":"ann@desk"`: 8, `"terms":{"limit":{"rate":"50/d"}},"note":"sale","result":"begun"`: 2,
		`"terms":{"deny":true},"result":"done"`: 2, `"action":"unset"`: 4, "acme": 0,
	} {
		if got := strings.Count(string(records), want); got != n {
			t.Errorf("the audit log has %s %d times, want %d:\n%s", want, got, n, records)
		}
	}
}

// A name of a call belongs to its method: an unset is not answered with the answer of a set, nor the reverse.
func TestNamesOfCallsBelongToTheirMethods(t *testing.T) {
	r := start(t, parse(t, free+overridable), nil)
	const body = `{"overrides": [{"rule": "tenants", "key": ["acme"], "deny": true}]}`
	const gone = `{"rule": "tenants", "key": ["acme"]}`
	for i, c := range []struct {
		method, body string
		status, left int
	}{{"PUT", body, 200, 1}, {"DELETE", gone, 200, 0}, {"PUT", body, 200, 0}, {"PUT", gone, 422, 0}, {"DELETE", body, 422, 0}} {
		res, text := r.send(Admin, c.method, "/v1/overrides", c.body, "Content-Type", "application/json", "Idempotency-Key", "one")
		if n := r.engine.overrides.Len(); res.StatusCode != c.status || n != c.left {
			t.Errorf("call %d, %s %s, is answered %d %s, and %d overrides are left; want %d and %d", i, c.method, c.body, res.StatusCode, text, n, c.status, c.left)
		}
	}
}

// Overrides and units ahead whose keys the rule no longer has are listed with all parts of their key, as not in force, and can be seen and
// removed by them. An override of another key is never taken for one of them.
func TestOverridesOfOtherKeysCanBeRemoved(t *testing.T) {
	const one, other = `{"rule": "tenants", "key": ["acme"]}`, `{"rule": "tenants", "key": ["acme", "bob"]}`
	for keys, x := range map[[2]string]struct{ body, listed string }{
		{`"header:X-Tenant"`, `["header:X-Tenant", "header:X-User"]`}:              {one, `"key":["acme"]`},
		{`["header:X-Tenant", "header:X-User"]`, `"header:X-Tenant"`}:              {other, `"key":["acme","bob"]`},
		{`["header:X-Tenant", "header:X-User"]`, `client_ip`}:                      {other, `"key":["acme","bob"]`},
		{`"header:X-Tenant"`, `client_ip`}:                                         {one, `"key":["acme"]`},
		{`["constant:a", "header:X-Tenant"]`, `["constant:b", "header:X-Tenant"]`}: {one, `"key":["a","acme"]`},
	} {
		rules := func(key string) string {
			return free + "rules: [{name: tenants, key: " + key + ", limit: {algorithm: fixed_window, rate: 5/d}, ahead: {units: 9, for: 24h}}]\n"
		}
		text := rules(keys[0])
		r := start(t, parse(t, text), func(o *Options) {
			o.Load = func() (*config.File, error) { return config.Parse("sluice.yaml", []byte(text)) }
		})
		call := func(method, path, body string, want int) string {
			t.Helper()
			res, got := r.send(Admin, method, path, body, "Content-Type", "application/json")
			if res.StatusCode != want {
				t.Errorf("%v: %s %s %s is answered %d %s, want %d", keys, method, path, body, res.StatusCode, got, want)
			}
			return got
		}
		call(http.MethodPut, "/v1/overrides", strings.Replace(x.body, "}", `, "limit": {"rate": "9/d"}}`, 1), 200)
		call(http.MethodPost, "/v1/grant", strings.Replace(x.body, "}", `, "units": 3, "ahead": true}`, 1), 200)
		text = rules(keys[1])
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"?rule=tenants", "?rule=tenants&ahead=true"} {
			if got := call(http.MethodGet, "/v1/overrides"+list, "", 200); !strings.Contains(got, x.listed) || !strings.Contains(got, `"not_in_force":"the key has other parts`) {
				t.Errorf("%v: the list of %s is %s; want %s, not in force", keys, list, got, x.listed)
			}
		}
		x.body = `{"rule": "tenants", ` + x.listed + "}"
		values := strings.NewReplacer(`"key":[`, "", `]`, "", `"`, "", ",", "&key=").Replace(x.listed)
		if got := call(http.MethodGet, "/v1/overrides?rule=tenants&key="+values, "", 200); !strings.Contains(got, x.listed) {
			t.Errorf("%v: the override of %s is %s", keys, values, got)
		}
		call(http.MethodDelete, "/v1/overrides", strings.Replace(x.body, "acme", "none", 1), 400)
		if got := call(http.MethodDelete, "/v1/overrides", x.body, 200); !strings.Contains(got, `"existed":true`) {
			t.Errorf("%v: the override is removed with the answer %s", keys, got)
		}
		call(http.MethodDelete, "/v1/grant", x.body, 200)
		if n := r.engine.overrides.Len(); n != 0 {
			t.Errorf("%v: %d overrides and units ahead are left", keys, n)
		}
	}
}
