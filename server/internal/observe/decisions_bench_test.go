package observe

import (
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/accesslog"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/observe/tracing"
)

// BenchmarkObserve measures what counting a verdict costs: of an allowed request and of a denied one, each also with a candidate that decides
// the same or otherwise.
func BenchmarkObserve(b *testing.B) {
	log, access, traces := telemetry.Default(), accesslog.Default(), tracing.Default()
	log.Sample = 0
	m := telemetry.NewMetrics("test")
	d, err := Open(Options{
		Log: &log, AccessLog: &access, Tracing: &traces, ClientIP: func(*http.Request) netip.Addr { return netip.Addr{} },
		Trusted: func(*http.Request) bool { return false }, Logger: slog.New(slog.DiscardHandler), Metrics: m,
	})
	if err != nil {
		b.Fatal(err)
	}
	rule := &policy.Rule{Name: "rule"}
	m.SetRules([]*policy.Rule{rule})
	observe := d.At("proxy")
	candidate := []*sluice.Limit{sluice.MustLimit("rule/candidate/1", sluice.TokenBucket{Rate: sluice.PerMinute(9)})}
	for _, x := range []struct {
		name           string
		allowed, tried bool
		candidate      bool // allows
	}{
		{"allowed", true, false, false},
		{"allowed, and by a candidate", true, true, true},
		{"allowed, and not by a candidate", true, true, false},
		{"denied", false, false, false},
		{"denied, and not by a candidate", false, true, true},
	} {
		v := &policy.Verdict{Rule: rule, Results: []policy.LimitResult{{
			Rule:     rule,
			Request:  sluice.Request{Limit: sluice.MustLimit("rule", sluice.TokenBucket{Rate: sluice.PerMinute(5)}), Key: sluice.StringKey("192.0.2.1"), Cost: 1},
			Decision: sluice.Decision{Allowed: x.allowed},
		}}}
		if !x.allowed {
			v.Action = policy.Deny
		}
		if x.tried {
			tried := *rule
			tried.Candidate = candidate
			v.Rule, v.Results[0].Rule = &tried, &tried
			v.Results = append(v.Results, v.Results[0])
			v.Results[1].Role, v.Results[1].Decision.Allowed = policy.RoleCandidate, x.candidate
		}
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				observe(nil, v, time.Microsecond)
			}
		})
	}
}
