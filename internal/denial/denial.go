// Package denial puts denials into statuses, waits and problem documents, for edges of HTTP and gRPC.
package denial

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

// Status returns the status that fits a denial. If the rule has a status, it is that status. Otherwise
// it is 400 if the request lacks a part of the key, has a negative cost, or is refused whatever the
// rules say. It is 403 if no rule lets the request pass, or a list denies it. It is 503 if the limiter
// cannot decide or has no room, and 429 if the client exceeds a limit.
func Status(v *policy.Verdict) int {
	switch {
	case Denies(v.Rule) && v.Rule.WhenLimited.Status != 0:
		return v.Rule.WhenLimited.Status
	case v.Missing != nil, isInvalid(v.Err), ambiguity(v) != nil:
		return http.StatusBadRequest
	case v.Reason == sluice.ReasonNoRule, v.Reason == sluice.ReasonUnknownPlan, v.Reason == sluice.ReasonListed: // a list of prices too
		return http.StatusForbidden
	case isBusy(v):
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}

// Denies reports whether a rule refuses limited requests.
func Denies(r *policy.Rule) bool {
	return r != nil && r.WhenLimited.Action != policy.Degrade && r.WhenLimited.Action != policy.Mark
}

// RetryAfter returns the time after which a denied request may come back, zero if it never may. It is
// for edges that are not HTTP: Headers.Set writes the same time. It is short for a concurrency limit,
// whose units may be free at any moment.
func RetryAfter(v *policy.Verdict) time.Duration {
	if wait := ShownWait(v); wait > 0 {
		return wait
	}
	if v.Reason == sluice.ReasonStoreError || v.Reason == sluice.ReasonTableFull {
		return outage
	}
	return 0
}

// outage is the time after which clients may come back if the limiter itself fails.
const outage = time.Second

// ShownWait returns the wait that headers show. A unit of a concurrency limit is certain to be
// free when a lease has expired, and likely to be at any moment. So a refused client gets the
// shortest wait that can be written, or the wait of another limit that refuses it.
func ShownWait(v *policy.Verdict) time.Duration {
	wait := v.RetryAfter()
	if v.TightestLimit == nil || v.Reason == sluice.ReasonBanned || !v.TightestLimit.IsConcurrency() {
		return wait
	}
	wait = min(wait, time.Second)
	for i := range v.Results {
		m := &v.Results[i]
		if m.Role != policy.RoleEnforced || m.Decision.Allowed || m.Request.Limit == nil {
			continue
		}
		if m.Decision.Reason == sluice.ReasonBanned || !m.Request.Limit.IsConcurrency() {
			wait = max(wait, m.Decision.RetryAfter)
		}
	}
	return wait
}

// SetHeaders sets the headers of a refusal.
func SetHeaders(h http.Header, contentType string, length int) {
	values := &[4]string{contentType, strconv.Itoa(length), "no-store", "nosniff"}
	for i, name := range [...]string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options"} {
		h[name] = values[i : i+1 : i+1]
	}
}

// send sends a refusal.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	SetHeaders(w.Header(), contentType, len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// ambiguity returns why package httplimit refused a request, nil for other verdicts.
func ambiguity(v *policy.Verdict) *policy.AttributeError {
	var refused *policy.AttributeError
	if v.Refused == nil || !errors.As(v.Refused, &refused) {
		return nil
	}
	return refused
}

// isInvalid reports whether the store got an impossible request.
func isInvalid(err error) bool {
	if err == nil {
		return false
	}
	var invalid *sluice.RequestError
	return errors.As(err, &invalid)
}

// isBusy reports whether the limiter is the cause of a denial, and not the client.
func isBusy(v *policy.Verdict) bool {
	return v.Reason == sluice.ReasonStoreError || v.Reason == sluice.ReasonTableFull ||
		v.Refused != nil && (errors.Is(v.Refused, gate.ErrTooManyWaiting) || errors.Is(v.Refused, sluice.ErrDeadline))
}
