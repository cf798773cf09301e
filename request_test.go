package sluice_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// An invalid request is an error that names the problem.
func TestInvalidRequestsNameTheProblem(t *testing.T) {
	bucket := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(1)})
	leases := sluice.MustLimit("jobs", sluice.Concurrency{Max: 1})
	for _, step := range []struct {
		request sluice.Request
		problem string
	}{
		{sluice.Request{}, "sluice: request: has no limit"},
		{sluice.Request{Limit: bucket}, ""},
		{sluice.Request{Limit: bucket, Cost: 1, Floor: 1, MaxWait: sluice.NoWait, Peek: true, Shadow: true}, ""},
		{sluice.Request{Limit: bucket, Cost: math.MaxInt64, Floor: math.MaxInt64, MaxWait: math.MaxInt64}, ""},
		{sluice.Request{Limit: bucket, MaxWait: math.MinInt64}, ""},
		{sluice.Request{Limit: bucket, Cost: -1}, `request to limit "api": the cost is negative`},
		{sluice.Request{Limit: bucket, Cost: math.MinInt64}, "the cost is negative"},
		{sluice.Request{Limit: bucket, Floor: -1}, "the floor is negative"},
		{sluice.Request{Limit: leases, Cost: 1}, "Member"},
		{sluice.Request{Limit: leases, Cost: 1, Peek: true}, ""},
		{sluice.Request{Limit: leases}, ""},
		{sluice.Request{Limit: leases, Cost: 1, Member: 7}, ""},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{}}, ""},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{For: time.Second}}, "After"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{Prolong: true}}, "After"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 100_000_001, For: time.Second}}, "After"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1}}, "For"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Microsecond}}, "For"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: math.MaxInt64}}, "For"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Within: -1}}, "Within"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Within: math.MaxInt64}}, "Within"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Within: time.Minute}}, ""},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Escalate: []time.Duration{time.Hour}, Forget: time.Hour}}, ""},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Escalate: []time.Duration{time.Hour, 0}}}, "Escalate[1]"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Escalate: make([]time.Duration, 17)}}, "Escalate has 17"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Forget: time.Hour}}, "Forget"},
		{sluice.Request{Limit: bucket, Ban: &sluice.Ban{After: 1, For: time.Second, Escalate: []time.Duration{time.Hour}, Forget: -1}}, "Forget"},
	} {
		err := step.request.Check()
		if step.problem == "" {
			if err != nil {
				t.Errorf("valid request %+v was refused: %v", step.request, err)
			}
			continue
		}
		var bad *sluice.RequestError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), step.problem) || !strings.HasPrefix(err.Error(), "sluice: request") {
			t.Errorf("%+v: %v, want one about %s", step.request, err, step.problem)
			continue
		}
		if step.request.Limit != nil && bad.Limit != step.request.Limit.Name() {
			t.Errorf("%+v: the error names the limit %q", step.request, bad.Limit)
		}
	}
}

// Each reason has its word.
func TestEachReasonHasAWord(t *testing.T) {
	for reason, text := range map[sluice.Reason]string{
		sluice.ReasonNone: "", sluice.ReasonLimited: "limited", sluice.ReasonTooSoon: "too-soon", sluice.ReasonNever: "never",
		sluice.ReasonBanned: "banned", sluice.ReasonTableFull: "table-full", sluice.ReasonNoRule: "no-rule",
		sluice.ReasonStoreError: "store-error", 255: "unknown",
	} {
		if reason.String() != text {
			t.Errorf("%d is %q, want %q", reason, reason, text)
		}
	}
	if text, err := json.Marshal(map[string]sluice.Reason{"reason": sluice.ReasonTooSoon}); err != nil || string(text) != `{"reason":"too-soon"}` {
		t.Errorf("wrote %s, %v", text, err)
	}
}
