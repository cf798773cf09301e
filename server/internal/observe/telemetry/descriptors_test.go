package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// descriptorMetrics returns a decider over some rules, and the metrics that count its decisions.
func descriptorMetrics(t *testing.T, near float64, rules ...policy.Rule) (*Metrics, *Descriptors, func(q ...descriptors.Request)) {
	t.Helper()
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{Clock: func() int64 { return 1 << 50 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	m := NewMetrics("test")
	d := NewDescriptors(m, near)
	m.SetRules(p.Rules())
	d.SetRules(p.Rules())
	return m, d, func(q ...descriptors.Request) {
		v := p.DecideDescriptors(t.Context(), store, "edge", q)
		d.Observe(q, &v)
		m.Observe(EdgeRLS, &v.Verdict, 0)
	}
}

// scraped returns the lines of the metrics that begin with a text.
func scraped(m *Metrics, begin string) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, begin) && !strings.HasSuffix(line, " 0\n") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func ofUser(name string, n int64, entries ...descriptors.PatternEntry) policy.Rule {
	return policy.Rule{
		Name: name, Match: policy.Match{Descriptor: &descriptors.Pattern{Domain: "edge", Entries: entries}},
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerMinute(n)})},
	}
}

// The metrics of descriptors count hits by rule and outcome.
func TestDescriptorHits(t *testing.T) {
	shadow := ofUser("quiet", 1, descriptors.PatternEntry{Key: "quiet"})
	shadow.Shadow = true
	m, d, call := descriptorMetrics(t, 0.8, ofUser("user", 10, descriptors.PatternEntry{Key: "user"}), shadow)
	hit := func(key, value string, n int64) descriptors.Request {
		return descriptors.Request{Entries: []descriptors.Entry{{Key: key, Value: value}}, Cost: n}
	}
	call(hit("user", "a", 7))
	call(hit("user", "a", 2)) // the ninth is beyond eight tenths
	call(hit("user", "a", 5)) // denied
	call(hit("user", "a", 1), hit("user", "b", 1))
	call(hit("quiet", "x", 3))
	call(hit("none", "x", 3))
	call(descriptors.Request{Entries: []descriptors.Entry{{Key: "user", Value: "a"}}, Cost: 5, Refund: true})
	call(descriptors.Request{Entries: []descriptors.Entry{{Key: "user", Value: "a"}}, Look: true})
	want := `sluice_descriptor_hits_total{descriptor="quiet",domain="edge",rule="quiet"} 3
sluice_descriptor_hits_total{descriptor="user",domain="edge",rule="user"} 16
sluice_descriptor_near_limit_total{descriptor="user",domain="edge",rule="user"} 2
sluice_descriptor_over_limit_total{descriptor="quiet",domain="edge",rule="quiet"} 3
sluice_descriptor_over_limit_total{descriptor="user",domain="edge",rule="user"} 5
sluice_descriptor_shadow_mode_total{descriptor="quiet",domain="edge",rule="quiet"} 3
sluice_descriptor_within_limit_total{descriptor="user",domain="edge",rule="user"} 11
`
	if got := scraped(m, "sluice_descriptor_"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Each descriptor counts once as a decision.
	if got := scraped(m, `sluice_decisions_total{outcome="allowed",rule="user"}`); got != "sluice_decisions_total{outcome=\"allowed\",rule=\"user\"} 6\n" {
		t.Errorf("the decisions are counted as %q", got)
	}
	d.SetRules(nil)
	if got := scraped(m, "sluice_descriptor_"); got != "" {
		t.Errorf("without rules:\n%s", got)
	}
}

// TestHitsNearTheLimitAreCounted counts hits beyond a part of the limit.
func TestHitsNearTheLimitAreCounted(t *testing.T) {
	for near, want := range map[float64]string{0.29: "71", 0.5: "50", 0.999: "1", 1: ""} {
		m, _, call := descriptorMetrics(t, near, ofUser("user", 100, descriptors.PatternEntry{Key: "user"}))
		for range 100 {
			call(descriptors.Request{Entries: []descriptors.Entry{{Key: "user", Value: "a"}}, Cost: 1})
		}
		if want != "" {
			want = fmt.Sprintf("sluice_descriptor_near_limit_total{descriptor=\"user\",domain=\"edge\",rule=\"user\"} %s\n", want)
		}
		if got := scraped(m, "sluice_descriptor_near_limit_total"); got != want {
			t.Errorf("%v: got %q, want %q", near, got, want)
		}
	}
}

// TestDescriptorValues counts by values, of which only some have series.
func TestDescriptorValues(t *testing.T) {
	detailed := ofUser("detailed", 1<<30, descriptors.PatternEntry{Key: "user"}, descriptors.PatternEntry{Key: "path", Value: "/img/*", Shared: true})
	detailed.Match.Descriptor.Detailed = true
	m, _, call := descriptorMetrics(t, 0.8, detailed, ofUser("counted", 1<<30, descriptors.PatternEntry{Key: "route", Counted: true}, descriptors.PatternEntry{Key: "id"}))
	call(descriptors.Request{Entries: []descriptors.Entry{{Key: "user", Value: "ann\xff"}, {Key: "path", Value: "/img/a"}}, Cost: 1})
	call(descriptors.Request{Entries: []descriptors.Entry{{Key: "route", Value: "api"}, {Key: "id", Value: "7"}}, Cost: 1})
	for i := range 3 * mostValues {
		call(descriptors.Request{Entries: []descriptors.Entry{{Key: "route", Value: fmt.Sprint("r", i)}, {Key: "id", Value: "7"}}, Cost: 1})
	}
	got := scraped(m, "sluice_descriptor_hits_total")
	for _, want := range []string{
		"sluice_descriptor_hits_total{descriptor=\"user_ann\uFFFD.path_/img/*\",domain=\"edge\",rule=\"detailed\"} 1",
		`sluice_descriptor_hits_total{descriptor="route_api.id",domain="edge",rule="counted"} 1`,
		fmt.Sprintf(`sluice_descriptor_hits_total{descriptor="",domain="",rule="(other)"} %d`, 2*mostValues+2),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no series %s", want)
		}
	}
	if n := strings.Count(got, "\n"); n != mostValues+1 {
		t.Errorf("%d series", n)
	}
}

// TestDescriptorsWhileRulesChange counts calls while the rules are replaced.
func TestDescriptorsWhileRulesChange(t *testing.T) {
	detailed := ofUser("user", 1<<30, descriptors.PatternEntry{Key: "user"})
	detailed.Match.Descriptor.Detailed = true
	m, d, call := descriptorMetrics(t, 0.8, detailed)
	p, err := policy.New(policy.Options{Rules: []policy.Rule{detailed}})
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			rate := sluice.PerMinute(int64(100 + i))
			for j := range 200 {
				entries := []descriptors.Entry{{Key: "user", Value: fmt.Sprint(i, j%20)}}
				call(descriptors.Request{Entries: entries}, descriptors.Request{Entries: entries, Limit: &rate})
			}
		})
	}
	for range 20 {
		d.SetRules(nil)
		d.SetRules(p.Rules())
	}
	calls.Wait()
	if got := scraped(m, "sluice_descriptor_hits_total"); got == "" {
		t.Error("nothing was counted")
	}
}
