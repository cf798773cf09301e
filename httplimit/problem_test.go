package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// Each kind of denial has its own problem document.
func TestEachDenialHasItsProblem(t *testing.T) {
	limit := sluice.MustLimit("daily", sluice.FixedWindow{Rate: sluice.PerDay(5)})
	other := sluice.MustLimit("other", sluice.FixedWindow{Rate: sluice.PerDay(5)})
	denied := func(reason sluice.Reason, err error) *policy.Verdict {
		v := verdict(0, result(limit, sluice.Decision{Reason: reason, Limit: 5}), result(other, sluice.Decision{Allowed: true, Limit: 5}))
		v.Refused = err
		return v
	}
	daily := []string{"daily"}
	for _, c := range []struct {
		name     string
		v        *policy.Verdict
		status   int
		kind     string
		violated []string
	}{
		{"limited", denied(sluice.ReasonLimited, nil), 429, denial.TypeQuotaExceeded, daily},
		{"too soon", denied(sluice.ReasonTooSoon, nil), 429, denial.TypeQuotaExceeded, daily},
		{"never", denied(sluice.ReasonNever, nil), 429, denial.TypeQuotaExceeded, daily},
		{"banned", denied(sluice.ReasonBanned, nil), 429, denial.TypeAbnormalUsage, daily},
		{"table full", denied(sluice.ReasonTableFull, nil), 503, denial.TypeReducedCapacity, nil},
		{"delay too long", denied(sluice.ReasonLimited, gate.ErrTooLate), 429, denial.TypeQuotaExceeded, daily},
		{"too many waiting", denied(sluice.ReasonLimited, gate.ErrTooManyWaiting), 503, denial.TypeReducedCapacity, nil},
		{"deadline", denied(sluice.ReasonLimited, fmt.Errorf("x: %w", sluice.ErrDeadline)), 503, denial.TypeReducedCapacity, nil},
		{"store error", &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonStoreError}, 503, denial.TypeReducedCapacity, nil},
		{"no rule", &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNoRule}, 403, denial.TypeBlank, nil},
		{"missing", &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonMissingKey, Missing: &policy.Part{Name: "X-User"}}, 400, denial.TypeBlank, nil},
		{"missing without a name", &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonMissingKey, Missing: &policy.Part{}}, 400, denial.TypeBlank, nil},
		{"invalid", &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNever, Err: &sluice.RequestError{}}, 400, denial.TypeBlank, nil},
		{"without limit results", &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonLimited, TightestLimit: limit}, 429, denial.TypeQuotaExceeded, daily},
	} {
		w := httptest.NewRecorder()
		if err := httplimit.WriteDenied(w, get("/"), c.v); err != nil {
			t.Error(err)
		}
		var p denial.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s: %v in %s", c.name, err, w.Body)
			continue
		}
		if w.Code != c.status || p.Status != c.status || p.Type != c.kind || p.Title == "" || !reflect.DeepEqual(p.ViolatedPolicies, c.violated) {
			t.Errorf("%s: status %d, %+v", c.name, w.Code, p)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/problem+json", "Cache-Control": "no-store", "Content-Length": fmt.Sprint(w.Body.Len()),
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q; want %q", c.name, name, got, want)
			}
		}
	}
}

func TestResponseOfTheRule(t *testing.T) {
	v := &policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonLimited, Rule: &policy.Rule{}}
	answer := &v.Rule.WhenLimited
	write := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		if err := httplimit.WriteDenied(w, get("/"), v); err != nil {
			t.Error(err)
		}
		return w
	}
	if w := write(); w.Code != 429 {
		t.Errorf("by default: status %d", w.Code)
	}
	answer.Status = 418
	if w := write(); w.Code != 418 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("with a status: %d, %v", w.Code, w.Header())
	}
	answer.Body, answer.Header = "Come back later.", map[string]string{"x-teapot": "short"}
	if w := write(); w.Code != 418 || w.Body.String() != answer.Body || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
		w.Header().Get("X-Teapot") != "short" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("with a body: %d %v %s", w.Code, w.Header(), w.Body)
	}
	answer.ContentType = "text/html"
	if w := write(); w.Header().Get("Content-Type") != "text/html" {
		t.Errorf("with a type: %v", w.Header())
	}
}
