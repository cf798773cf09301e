package app

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// pressureOf returns what the figures tell of a rule.
func (r *running) pressureOf(rule string) float64 {
	r.t.Helper()
	text := r.figure(`sluice_rule_pressure_ratio{rule="` + rule + `"}`)
	pressure, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.t.Fatal(text)
	}
	return math.Round(pressure*1e6) / 1e6
}

// All edges press on one gauge of a rule, also by what is denied and by what is asked of it
// in shadow, and looking does not.
func TestPressure(t *testing.T) {
	r := start(t, parse(t, free+`
rules:
  - {name: open, match: {path: /open}, key: [global], limit: {algorithm: fixed_window, rate: 20/h}}
  - {name: shut, match: {path: /shut}, key: [global], limit: {algorithm: fixed_window, rate: 2/h}}
  - {name: would, match: {path: "/{any}"}, key: [global], limit: {algorithm: fixed_window, rate: 100/h}, shadow: true}
`), nil)
	for _, rule := range []string{"open", "shut", "would"} {
		if got := r.pressureOf(rule); got != 0 {
			t.Errorf("%s: %v before any request", rule, got)
		}
	}
	for range 5 {
		r.ask(Proxy, http.MethodGet, "/open", "")
		r.ask(API, http.MethodPost, "/v1/check", `{"method": "GET", "path": "/open"}`)
		r.ask(API, http.MethodPost, "/v1/check", `{"rule": "open", "key": []}`)
		r.ask(API, http.MethodPost, "/v1/peek", `{"method": "GET", "path": "/open"}`)
		r.ask(Proxy, http.MethodGet, "/shut", "")
	}
	for rule, want := range map[string]float64{"open": 0.75, "shut": 2.5, "would": 0.15} {
		if got := r.pressureOf(rule); got != want {
			t.Errorf("%s: the pressure is %v; want %v", rule, got, want)
		}
	}
}

// Rules that a reload adds have a pressure, and rules that it removes have none.
func TestPressureAfterAReload(t *testing.T) {
	const rule = "{name: %s, match: {path: /%[1]s}, key: global, limit: {algorithm: fixed_window, rate: 4/h}}"
	r := reloading(t, free+"rules: ["+fmt.Sprintf(rule, "old")+", "+fmt.Sprintf(rule, "api")+"]\n")
	for range 6 {
		r.ask(Proxy, http.MethodGet, "/api", "")
	}
	r.write(free + "rules: [" + fmt.Sprintf(rule, "api") + ", " + fmt.Sprintf(rule, "new") + "]\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.ask(Proxy, http.MethodGet, "/new", "")
	for path, want := range map[string]string{
		"/v1/pressure":     `{"pressures":{"api":1.5,"new":0.25}}`,
		"/v1/pressure/api": `{"rule":"api","pressure":1.5}`,
	} {
		if res, body := r.ask(Admin, http.MethodGet, path, ""); res.StatusCode != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	if res, body := r.ask(Admin, http.MethodGet, "/v1/pressure/old", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("a rule that is gone: %d %s", res.StatusCode, body)
	}
}

// Marked traffic is dropped first when there is congestion, which all edges see; and also
// after the configuration was loaded anew.
func TestMarkedFirstDrop(t *testing.T) {
	const config = free + `
rules:
  - {name: contract, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: %d/h}, when_limited: {action: mark}}
  - {name: service, key: global, limit: {algorithm: fixed_window, rate: 40/h}}
  - {name: drop, match: {marked: true, pressure: {of: service, at_least: 50%%}}, always: true, when_limited: {status: 503}}
`
	r := reloading(t, fmt.Sprintf(config, 4))
	ask := func(tenant string, n, want int) {
		t.Helper()
		for i := range n {
			if got := r.status(Proxy, "/", "X-Tenant", tenant); got != want {
				t.Errorf("%s: %d of %d answers %d; want %d, at a pressure of %v", tenant, i+1, n, got, want, r.pressureOf("service"))
			}
		}
	}
	ask("a", 4, http.StatusOK)
	ask("a", 6, http.StatusOK) // marked, and there is room
	for range 11 {
		if res, body := r.ask(API, http.MethodPost, "/v1/check", `{"method": "GET", "path": "/", "headers": {"X-Tenant": "b"}}`); res.StatusCode != http.StatusOK {
			t.Fatal(body)
		}
	}
	// A little more than half of what the service can take is asked for.
	ask("a", 3, http.StatusServiceUnavailable)
	ask("c", 4, http.StatusOK)
	ask("c", 1, http.StatusServiceUnavailable)
	r.write(fmt.Sprintf(config, 5))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	ask("c", 1, http.StatusOK) // one more by the new contract
	ask("c", 1, http.StatusServiceUnavailable)
	ask("a", 1, http.StatusOK)
	ask("a", 1, http.StatusServiceUnavailable)
}
