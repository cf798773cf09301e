package api

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// decision is the answer of the calls that decide.
type decision struct {
	Allowed bool   `json:"allowed"`
	Action  string `json:"action"`
	// Reason is why, in a word; empty for a request that its rules let pass.
	Reason string `json:"reason,omitempty"`
	// Rule is the rule that decided, or the tightest rule that matched.
	Rule string `json:"rule,omitempty"`
	// Class is the request's class.
	Class string `json:"class,omitempty"`
	// UnknownPlan means that the request names a plan that is not there, or several.
	UnknownPlan bool `json:"unknown_plan,omitempty"`
	// Degrade and Mark define how to handle a request that passes.
	Degrade *handling `json:"degrade,omitempty"`
	Mark    *handling `json:"mark,omitempty"`
	// Answer is the response to the request, unless the request is passed on.
	Answer *answer `json:"answer,omitempty"`
	// Missing is the part of the rule's key that the request lacked, if it was denied for that.
	Missing string `json:"missing,omitempty"`
	// Limit is the tightest limit that applied.
	Limit     string `json:"limit,omitempty"`
	Capacity  *int64 `json:"capacity,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
	wire.Waits
	// Degraded means that a fallback decided about one of the limits, not the store. What remains of such a limit, and when
	// it resets, is not known, and left out.
	Degraded bool `json:"degraded,omitempty"`
	// Limits are all limits that applied.
	Limits []limitDecision `json:"limits"`
	// Explanation describes the decision in words.
	Explanation string `json:"explanation"`
	*opened
}

// handling defines how to handle a request that passes although its rule's limits deny it.
type handling struct {
	Rule string `json:"rule"`
	// Upstream is where the request goes instead.
	Upstream string `json:"upstream,omitempty"`
	// Status is the status of the response that the request gets at once.
	Status int `json:"status,omitempty"`
	// RequestHeader contains headers to set on the request before it is passed on.
	RequestHeader map[string]string `json:"request_header,omitempty"`
}

// handlingBy returns the handling that a rule defines, nil without a rule.
func handlingBy(r *policy.Rule, results []policy.LimitResult) *handling {
	if r == nil {
		return nil
	}
	answer := &r.WhenLimited
	h := &handling{Rule: r.Name, Upstream: answer.Upstream}
	if answer.Answers() {
		h.Status = cmp.Or(answer.Status, http.StatusOK)
		return h
	}
	var wait time.Duration
	for i := range results {
		if m := &results[i]; m.Rule == r && !m.Decision.Allowed {
			wait = max(wait, m.Decision.RetryAfter)
		}
	}
	fill := strings.NewReplacer("{rule}", r.Name, "{wait}", strconv.FormatInt(ceil(wait, time.Second), 10))
	h.RequestHeader = make(map[string]string, len(answer.RequestHeader))
	for name, value := range answer.RequestHeader {
		h.RequestHeader[name] = fill.Replace(value)
	}
	return h
}

// opened holds the fields that a reservation adds.
type opened struct {
	Token       string `json:"token"`
	ExpiresInMS int64  `json:"expires_in_ms"`
}

// limitDecision is the decision about one limit that applied.
type limitDecision struct {
	Rule string `json:"rule"`
	describe.LimitResult
	// Key is the key's fingerprint.
	Key       string `json:"key"`
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason,omitempty"`
	Shadow    bool   `json:"shadow,omitempty"`
	Capacity  int64  `json:"capacity"`
	Remaining *int64 `json:"remaining,omitempty"`
	wire.Waits
	Degraded bool `json:"degraded,omitempty"`
	Overflow bool `json:"overflow,omitempty"`
}

func waitsOf(d *sluice.Decision, delay time.Duration) wire.Waits {
	w := wire.Waits{DelayMS: ceil(delay, time.Millisecond)}
	if !d.Degraded {
		reset := ceil(d.ResetAfter, time.Millisecond)
		w.ResetAfterMS = &reset
	}
	if !d.Allowed && d.RetryAfter > 0 {
		ms, s := ceil(d.RetryAfter, time.Millisecond), ceil(d.RetryAfter, time.Second)
		w.RetryAfterMS, w.RetryAfterSeconds = &ms, &s
	}
	return w
}

func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// decisionOf returns the answer for a verdict, with a body of up to most bytes.
func (a *API) decisionOf(v *policy.Verdict, most int) decision {
	phrases := a.phrases()
	e := decision{
		Allowed:     v.Allowed(),
		Action:      v.Action.String(),
		Reason:      v.Reason.String(),
		Class:       v.Class,
		UnknownPlan: v.UnknownPlan,
		Degrade:     handlingBy(v.Degrade, v.Results),
		Mark:        handlingBy(v.Mark, v.Results),
		Answer:      a.answerTo(v, most),
		Limits:      make([]limitDecision, 0, len(v.Results)),
		Explanation: phrases.Verdict(v),
	}
	if v.Rule != nil {
		e.Rule = v.Rule.Name
	}
	if v.Missing != nil {
		e.Missing = v.Missing.String()
	}
	if v.TightestLimit != nil && v.Err == nil {
		d := v.Tightest
		e.Limit, e.Capacity, e.Remaining = v.TightestLimit.Name(), &d.Limit, &d.Remaining
		if d.Degraded {
			d.Limit, e.Remaining = v.TightestLimit.Capacity(), nil
		}
		e.Waits = waitsOf(&d, v.Delay)
	}
	for i := range v.Results {
		m := &v.Results[i]
		d := &m.Decision
		l := limitDecision{
			Rule: m.Rule.Name, LimitResult: phrases.LimitResult(m), Key: a.o.Fingerprint(m.Request.Key),
			Allowed: d.Allowed, Reason: d.Reason.String(), Shadow: m.Rule.Shadow, Capacity: d.Limit, Remaining: &d.Remaining,
			Waits: waitsOf(d, d.Delay), Degraded: d.Degraded, Overflow: d.Overflow,
		}
		if v.Err != nil || d.Degraded {
			// The store decided nothing, so there are no numbers.
			l.Capacity, l.Remaining, l.ResetAfterMS = m.Request.Limit.Capacity(), nil, nil
		}
		if v.Err != nil {
			l.Reason = v.Reason.String()
		}
		e.Degraded = e.Degraded || d.Degraded
		e.Limits = append(e.Limits, l)
	}
	return e
}

// described are the phrases about the verdicts of a policy.
type described struct {
	policy  *policy.Policy
	phrases describe.Phrases
}

// phrases returns the phrases for the policy in force. A verdict of an earlier policy can use them too.
func (a *API) phrases() *describe.Phrases {
	now := a.o.Decider.Policy()
	d := a.described.Load()
	if d == nil || d.policy != now {
		d = &described{policy: now}
		a.described.Store(d)
	}
	return &d.phrases
}

// answer is the response that the caller sends to a request that is not passed on. The proxy would send the
// same.
type answer struct {
	Status int `json:"status"`
	// Headers have one value each, without Content-Length.
	Headers map[string]string `json:"headers"`
	// Body is the body; in base64 if it is not text in UTF-8.
	Body   string `json:"body,omitempty"`
	Base64 bool   `json:"base64,omitempty"`
	// BodyBytes is the size of a body that is too large to be included.
	BodyBytes int `json:"body_bytes,omitempty"`
}

// maxAnswer bounds the bodies that are included, in bytes.
const maxAnswer = 64 << 10

// answerTo returns the response to a request, nil for a request that is passed on. A body of more than most
// bytes is left out.
func (a *API) answerTo(v *policy.Verdict, most int) *answer {
	refused := !v.Allowed()
	if !refused && (v.Degrade == nil || !v.Degrade.WhenLimited.Answers()) {
		return nil
	}
	w := gateway.NewAnswer()
	h := w.Header()
	a.o.Headers.Set(h, v)
	write := httplimit.WriteDegraded
	if refused {
		write = httplimit.WriteDenied
	}
	if err := write(w, nil, v); err != nil {
		a.o.AnswerFailed(err)
	}
	h.Del("Content-Length") // the caller sets it
	told := &answer{Status: w.Status, Headers: make(map[string]string, len(h))}
	for name, values := range h {
		told.Headers[name] = strings.Join(values, ", ")
	}
	switch {
	case len(w.Body) > most:
		told.BodyBytes = len(w.Body)
	case utf8.Valid(w.Body):
		told.Body = string(w.Body)
	default:
		told.Body, told.Base64 = base64.StdEncoding.EncodeToString(w.Body), true
	}
	return told
}
