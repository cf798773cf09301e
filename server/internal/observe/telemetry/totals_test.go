package telemetry

import (
	"reflect"
	"testing"

	"github.com/sluicehq/sluice/policy"
)

// Totals are the numbers of the metrics, also of rules without requests, and of requests without rules.
func TestTotalsAreTheMetrics(t *testing.T) {
	m := NewMetrics("test")
	busy, idle := &policy.Rule{Name: "busy"}, &policy.Rule{Name: "idle"}
	m.SetRules([]*policy.Rule{busy, idle})
	for range 3 {
		m.of(busy).outcomes[denied].Inc()
	}
	m.of(busy).outcomes[allowed].Inc()
	m.of(nil).outcomes[allowed].Inc()
	got := map[string]Totals{}
	m.Totals(func(rule string, t *Totals) { got[rule] = *t })
	want := map[string]Totals{"busy": {allowed: 1, denied: 3}, "idle": {}, NoRule: {allowed: 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the totals are %v, want %v", got, want)
	}
	if b := got["busy"]; b.Denied() != 3 || b.Demand() != 4 || FigureNames[denied] != "denied" {
		t.Errorf("of 4 requests, %d are counted, and %d as %s", b.Demand(), b.Denied(), FigureNames[denied])
	}
}

// BenchmarkTotals reads the counters of many rules.
func BenchmarkTotals(b *testing.B) {
	m := NewMetrics("test")
	var rules []*policy.Rule
	for i := range 1000 {
		rules = append(rules, &policy.Rule{Name: string(rune('a'+i%26)) + string(rune('0'+i/26))})
	}
	m.SetRules(rules)
	b.ReportAllocs()
	for b.Loop() {
		m.Totals(func(string, *Totals) {})
	}
}
