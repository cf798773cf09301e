package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

const edgeProxy Edge = "proxy"

// scrape returns the figures as text.
func scrape(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

var limit = sluice.MustLimit("r", sluice.TokenBucket{Rate: sluice.PerHour(1)})

// resultOf is the result of one limit of a rule.
func resultOf(r *policy.Rule, key string, d sluice.Decision) policy.LimitResult {
	role := policy.RoleEnforced
	switch {
	case r.Shadow:
		role = policy.RoleShadow
	case r.WhenLimited.Action != policy.Allow:
		role = policy.RoleAdvisory
	}
	return policy.LimitResult{Rule: r, Request: sluice.Request{Limit: limit, Key: sluice.StringKey(key), Cost: 1}, Decision: d, Role: role}
}

// Rules that degrade or mark are counted as what they did, and candidates on their own.
func TestCountsWhatRefusesNothing(t *testing.T) {
	mark := &policy.Rule{Name: "m", WhenLimited: policy.LimitedAction{Action: policy.Mark}}
	degrade := &policy.Rule{Name: "d", WhenLimited: policy.LimitedAction{Action: policy.Degrade}}
	tuned := &policy.Rule{Name: "t", Candidate: make([]*sluice.Limit, 1)}
	yes, no := sluice.Decision{Allowed: true}, sluice.Decision{Reason: sluice.ReasonLimited}
	candidate := func(d sluice.Decision) policy.LimitResult {
		c := resultOf(tuned, "k", d)
		c.Role = policy.RoleCandidate
		return c
	}
	m := NewMetrics("test")
	m.Measure(edgeProxy)
	m.SetRules([]*policy.Rule{mark, degrade, tuned})
	for _, v := range []policy.Verdict{
		{Action: policy.Mark, Mark: mark, Rule: tuned, Results: []policy.LimitResult{resultOf(mark, "k", no), resultOf(tuned, "k", yes), candidate(no)}},
		{Action: policy.Degrade, Degrade: degrade, Results: []policy.LimitResult{resultOf(degrade, "k", no)}},
		{Action: policy.Deny, Rule: tuned, Results: []policy.LimitResult{resultOf(mark, "k", no), resultOf(tuned, "k", no), candidate(yes)}},
	} {
		m.Observe(edgeProxy, &v, time.Millisecond)
	}
	text := scrape(m)
	for _, want := range []string{
		`sluice_decisions_total{outcome="marked",rule="m"} 1`,
		`sluice_decisions_total{outcome="uncharged",rule="m"} 1`,
		`sluice_decisions_total{outcome="degraded",rule="d"} 1`,
		`sluice_decisions_total{outcome="allowed",rule="t"} 1`,
		`sluice_decisions_total{outcome="denied",rule="t"} 1`,
		`sluice_candidate_decisions_total{outcome="allowed",rule="t"} 1`,
		`sluice_candidate_decisions_total{outcome="denied",rule="t"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	m.SetRules(nil)
	if strings.Contains(scrape(m), `rule="t"`) {
		t.Error("a rule that is gone is still there")
	}
}

func TestCountsRulesByWhatTheyDecided(t *testing.T) {
	a, b, shadow := &policy.Rule{Name: "a"}, &policy.Rule{Name: "b"}, &policy.Rule{Name: "s", Shadow: true}
	yes, no := sluice.Decision{Allowed: true}, sluice.Decision{Reason: sluice.ReasonLimited}
	a.OnStoreError = sluice.FallbackLocal
	m := NewMetrics("test")
	m.Measure(edgeProxy)
	m.SetRules([]*policy.Rule{a, b, shadow})
	for _, v := range []policy.Verdict{
		{Rule: a, Results: []policy.LimitResult{resultOf(a, "k", yes), resultOf(a, "k", yes), resultOf(b, "k", sluice.Decision{Allowed: true, Delay: time.Second, Overflow: true})}},
		{Action: policy.Deny, Rule: b, Results: []policy.LimitResult{resultOf(a, "k", yes), resultOf(b, "k", no), resultOf(shadow, "k", no)}},
		{Action: policy.Deny, Rule: a, Reason: sluice.ReasonStoreError, Err: errors.New("down"), Results: []policy.LimitResult{resultOf(a, "k", sluice.Decision{})}},
		// Whose client has left meanwhile counts nowhere.
		{Action: policy.Deny, Rule: a, Reason: sluice.ReasonStoreError, Err: fmt.Errorf("guard: %w", context.Canceled), Results: []policy.LimitResult{resultOf(a, "k", sluice.Decision{})}},
		{Rule: a, Results: []policy.LimitResult{resultOf(a, "k", yes), resultOf(a, "k", sluice.Decision{Allowed: true, Degraded: true}), resultOf(b, "k", yes)}},
		{Reason: sluice.ReasonNoRule},
		{Action: policy.Deny, Reason: sluice.ReasonNoRule},
		{Action: policy.Deny, Rule: a, Missing: &policy.Part{}},
		{Rule: &policy.Rule{Name: "old"}, Results: []policy.LimitResult{resultOf(&policy.Rule{Name: "old"}, "k", yes)}},
	} {
		m.Observe(edgeProxy, &v, time.Millisecond)
	}
	text := scrape(m)
	for _, want := range []string{
		`sluice_decisions_total{outcome="allowed",rule="a"} 2`,
		`sluice_degraded_decisions_total{on_store_error="local",rule="a"} 1`,
		`sluice_degraded_decisions_total{on_store_error="default",rule="b"} 0`,
		`sluice_decisions_total{outcome="uncharged",rule="a"} 1`,
		`sluice_decisions_total{outcome="error",rule="a"} 1`,
		`sluice_decisions_total{outcome="delayed",rule="b"} 1`,
		`sluice_decisions_total{outcome="denied",rule="b"} 1`,
		`sluice_decisions_total{outcome="shadow_denied",rule="s"} 1`,
		`sluice_decisions_total{outcome="allowed",rule="(none)"} 1`,
		`sluice_decisions_total{outcome="denied",rule="(none)"} 1`,
		`sluice_decisions_total{outcome="denied",rule="a"} 1`,
		`sluice_decisions_total{outcome="allowed",rule="(other)"} 1`,
		`sluice_overflow_decisions_total{rule="b"} 1`,
		`sluice_decision_duration_seconds_count{edge="proxy"} 8`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the figures lack %s", want)
		}
	}
}

func TestKeysMakeNoSeries(t *testing.T) {
	rule := &policy.Rule{Name: "per-client"}
	m := NewMetrics("test")
	m.SetRules([]*policy.Rule{rule})
	m.SetFailures([]string{"broken"}, nil)
	series := func() int { return len(regexp.MustCompile(`(?m)^sluice_`).FindAllString(scrape(m), -1)) }
	before := series()
	for i := range 1_000_000 {
		d := sluice.Decision{Allowed: i%3 == 0}
		v := policy.Verdict{Rule: rule, TightestLimit: limit, Results: []policy.LimitResult{resultOf(rule, fmt.Sprint("client ", i), d)}}
		if !d.Allowed {
			v.Action = policy.Deny
		}
		m.Observe(edgeProxy, &v, time.Microsecond)
	}
	m.UpstreamFailed("broken")
	if after := series(); after != before || before == 0 {
		t.Errorf("%d series before 1,000,000 keys, %d after", before, after)
	}
	if strings.Contains(scrape(m), "client ") {
		t.Error("the figures hold keys")
	}
}

func TestLogsASampleOfDenials(t *testing.T) {
	var out bytes.Buffer
	prints := newFingerprinter("")
	d := NewDenials(slog.New(slog.NewJSONHandler(&out, nil)), 3, prints.Fingerprint)
	now := time.Unix(1_000_000, 0)
	d.now = func() time.Time { return now }
	rule := &policy.Rule{Name: "login"}
	refused := sluice.Decision{Reason: sluice.ReasonLimited, Limit: 5, RetryAfter: 2 * time.Second}
	denial := policy.Verdict{
		Action: policy.Deny, Reason: sluice.ReasonLimited, Rule: rule, Tightest: refused, TightestLimit: limit,
		Results: []policy.LimitResult{resultOf(rule, "hunter2", refused)},
	}
	lines := func() []string { return strings.Split(strings.TrimSpace(out.String()), "\n") }

	d.Observe(edgeProxy, &policy.Verdict{})
	if out.Len() > 0 {
		t.Errorf("what passes is logged: %s", &out)
	}
	for range 10_000 {
		d.Observe(edgeProxy, &denial)
	}
	if n := len(lines()); n != 3 {
		t.Errorf("%d lines of 10,000 denials in a second, want 3", n)
	}
	now = now.Add(time.Second)
	d.Observe("api", &denial)
	var line struct {
		Msg, Edge, Reason, Rule, Limit, Key string
		Cost, Capacity, Remaining           int64
		RetryAfter                          time.Duration `json:"retry_after"`
		NotLogged                           int           `json:"not_logged"`
	}
	if err := json.Unmarshal([]byte(lines()[3]), &line); err != nil {
		t.Fatal(err)
	}
	if line.Msg != "denied" || line.Edge != "api" || line.Rule != "login" || line.Reason != "limited" || line.Limit != "r" ||
		line.Cost != 1 || line.Capacity != 5 || line.RetryAfter != 2*time.Second || line.NotLogged != 9997 {
		t.Errorf("the logged denial is %+v", line)
	}
	if line.Key != prints.Fingerprint(sluice.StringKey("hunter2")) || strings.Contains(out.String(), "hunter2") {
		t.Errorf("the key is logged as %q", line.Key)
	}
	// The clock goes back: the log goes on.
	now = now.Add(-time.Hour)
	d.Observe(edgeProxy, &denial)
	if n := len(lines()); n != 5 {
		t.Errorf("%d lines after the clock went back", n)
	}
}

func TestASampleOfNoneLogsNone(t *testing.T) {
	var out bytes.Buffer
	d := NewDenials(slog.New(slog.NewTextHandler(&out, nil)), 0, newFingerprinter("").Fingerprint)
	d.Observe(edgeProxy, &policy.Verdict{Action: policy.Deny})
	if out.Len() > 0 {
		t.Errorf("without a sample, a denial was logged: %s", out.String())
	}
}

func TestLogsWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	d := NewDenials(slog.New(slog.NewTextHandler(&out, nil)), 1, newFingerprinter("").Fingerprint)
	d.Observe(edgeProxy, &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNever, Rule: &policy.Rule{Name: "user"}, Missing: &policy.Part{Name: "X-User"}})
	if !strings.Contains(out.String(), "missing=X-User") {
		t.Errorf("the log of a denial has no missing=X-User: %s", out.String())
	}
}

func TestFingerprintsTellKeysApartAndNothingElse(t *testing.T) {
	f, g := newFingerprinter(""), newFingerprinter("")
	a, b := sluice.NewKey("a", "b"), sluice.StringKey("a\x01b")
	if f.Fingerprint(a) != f.Fingerprint(sluice.NewKey("a", "b")) {
		t.Error("one key has two fingerprints")
	}
	if f.Fingerprint(a) == f.Fingerprint(b) {
		t.Error("two keys have one fingerprint")
	}
	if f.Fingerprint(a) == g.Fingerprint(a) {
		t.Error("fingerprints have no seed")
	}
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(f.Fingerprint(a)) {
		t.Errorf("the fingerprint is %q, want 16 hex digits", f.Fingerprint(a))
	}
}

// Only existing rules have a pressure.
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
