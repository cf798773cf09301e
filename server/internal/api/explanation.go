package api

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// explanation is the answer of the calls that decide.
type explanation struct {
	Allowed bool   `json:"allowed"`
	Action  string `json:"action"`
	// Reason says why, in a word; empty for a request that passes by its rules.
	Reason string `json:"reason,omitempty"`
	// Rule is the rule that decided, or the tightest one met.
	Rule string `json:"rule,omitempty"`
	// Class is the request's class.
	Class string `json:"class,omitempty"`
	// Degrade and Mark are how a request that passes is to be handled.
	Degrade *handling `json:"degrade,omitempty"`
	Mark    *handling `json:"mark,omitempty"`
	// Answer is what the request gets, unless it is passed on.
	Answer *answer `json:"answer,omitempty"`
	// Missing is the part of the rule's key for lack of which a request was denied.
	Missing string `json:"missing,omitempty"`
	// Limit is the tightest limit that was met.
	Limit     string `json:"limit,omitempty"`
	Capacity  *int64 `json:"capacity,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
	waits
	// Degraded says that what stands in for the store decided about one of the limits.
	Degraded bool `json:"degraded,omitempty"`
	// Limits are all that were met.
	Limits []limitMet `json:"limits"`
	// Explanation says the same to a person.
	Explanation string `json:"explanation"`
	*opened
}

// handling is how a rule wants a request handled that passes, though its limits do not let it.
type handling struct {
	Rule string `json:"rule"`
	// Upstream is where the request goes instead.
	Upstream string `json:"upstream,omitempty"`
	// Status is that of the answer it gets at once.
	Status int `json:"status,omitempty"`
	// RequestHeader are headers to set on the request that is passed on.
	RequestHeader map[string]string `json:"request_header,omitempty"`
}

// handlingBy returns what a rule asks for, nil for none.
func handlingBy(r *policy.Rule, met []policy.LimitResult) *handling {
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
	for i := range met {
		if m := &met[i]; m.Rule == r && !m.Decision.Allowed {
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

// opened is added for a reservation.
type opened struct {
	Token       string `json:"token"`
	ExpiresInMS int64  `json:"expires_in_ms"`
}

// limitMet is one limit that a request met.
type limitMet struct {
	Rule      string `json:"rule"`
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	// Key is the key's fingerprint.
	Key string `json:"key"`
	// Role says what follows from the decision.
	Role string `json:"role"`
	// Listed is the list of the rule that the key or the client is on.
	Listed    string `json:"listed,omitempty"`
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason,omitempty"`
	Shadow    bool   `json:"shadow,omitempty"`
	Cost      int64  `json:"cost"`
	Floor     int64  `json:"floor,omitempty"`
	Capacity  int64  `json:"capacity"`
	Remaining int64  `json:"remaining"`
	waits
	Degraded bool `json:"degraded,omitempty"`
	Overflow bool `json:"overflow,omitempty"`
}

// waits are the times of a decision, rounded up.
type waits struct {
	// DelayMS is how long an allowed request waits before it acts.
	DelayMS int64 `json:"delay_ms"`
	// RetryAfterMS is when a denied request may come back; it is left out where no
	// wait would help.
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	// RetryAfterSeconds is the same in whole seconds, as in a Retry-After header.
	RetryAfterSeconds *int64 `json:"retry_after_seconds,omitempty"`
	// ResetAfterMS is when the whole budget is back.
	ResetAfterMS int64 `json:"reset_after_ms"`
}

func waitsOf(d *sluice.Decision, delay time.Duration) waits {
	w := waits{DelayMS: ceil(delay, time.Millisecond), ResetAfterMS: ceil(d.ResetAfter, time.Millisecond)}
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

// explain writes a verdict down.
func (a *API) explain(v *policy.Verdict) explanation {
	e := explanation{
		Allowed:     v.Allowed(),
		Action:      v.Action.String(),
		Reason:      v.Reason.String(),
		Class:       v.Class,
		Degrade:     handlingBy(v.Degrade, v.Results),
		Mark:        handlingBy(v.Mark, v.Results),
		Answer:      a.answerTo(v),
		Limits:      make([]limitMet, 0, len(v.Results)),
		Explanation: v.Explain(),
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
		e.waits = waitsOf(&d, v.Delay)
	}
	for i := range v.Results {
		m := &v.Results[i]
		d := &m.Decision
		l := limitMet{
			Rule: m.Rule.Name, Limit: m.Request.Limit.Name(), Algorithm: m.Request.Limit.Algorithm().String(),
			Key: a.o.Fingerprint(m.Request.Key), Role: m.Role.String(), Listed: m.Listed.String(), Allowed: d.Allowed, Reason: d.Reason.String(), Shadow: m.Rule.Shadow,
			Cost: m.Request.Cost, Floor: m.Request.Floor, Capacity: d.Limit, Remaining: d.Remaining,
			waits: waitsOf(d, d.Delay), Degraded: d.Degraded, Overflow: d.Overflow,
		}
		if v.Err != nil {
			// Nothing was decided: there are no numbers.
			l.Reason, l.Capacity = v.Reason.String(), m.Request.Limit.Capacity()
		}
		e.Degraded = e.Degraded || d.Degraded
		e.Limits = append(e.Limits, l)
	}
	return e
}
