package telemetry

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/policy"
)

// The rules that there are have a pressure, and no others, whoever is asked for.
func TestPressureOfRules(t *testing.T) {
	m := NewMetrics("test")
	m.Pressure(func(rule string) float64 { return float64(len(rule)) / 4 })
	if text := scrape(m); strings.Contains(text, "\nsluice_rule_pressure_ratio") {
		t.Error("there are no rules, and they have a pressure")
	}
	for _, rules := range [][]string{{"a", "bb"}, {"bb", "cccccc"}} {
		var all []*policy.Rule
		for _, name := range rules {
			all = append(all, &policy.Rule{Name: name})
		}
		m.SetRules(all)
		text := scrape(m)
		if n := strings.Count(text, "\nsluice_rule_pressure_ratio{"); n != len(rules) {
			t.Errorf("%q have %d series", rules, n)
		}
		for series, value := range map[string]string{`{rule="bb"}`: "0.5", `{rule="cccccc"}`: "1.5"} {
			if want := rules[0] != "a" || series == `{rule="bb"}`; strings.Contains(text, "\nsluice_rule_pressure_ratio"+series+" "+value+"\n") != want {
				t.Errorf("of %q, %s is not as it should be", rules, series)
			}
		}
	}
}
