package app

import (
	"math"
	"net/http"
	"strconv"
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
