package httplimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Types of problems, from draft-ietf-httpapi-ratelimit-headers-10.
const (
	// TypeQuotaExceeded: a limit is used up.
	TypeQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// TypeReducedCapacity: the service has less to give than usual.
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	// TypeAbnormalUsage: the client is banned.
	TypeAbnormalUsage = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	// TypeBlank: the status says it all.
	TypeBlank = "about:blank"
)

// Problem is a problem document, RFC 9457.
type Problem struct {
	// Type is a URI that says what kind of problem it is.
	Type string `json:"type"`
	// Title says the same in words.
	Title string `json:"title"`
	// Status is the status of the response.
	Status int `json:"status"`
	// Detail says what is special about this occurrence.
	Detail string `json:"detail,omitempty"`
	// Instance is a URI of this occurrence.
	Instance string `json:"instance,omitempty"`
	// ViolatedPolicies names the limits that refused the request, as
	// RateLimit-Policy does.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Write sends the problem with its status. It must not be stored by caches.
func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		// Strings and a number are always JSON.
		http.Error(w, http.StatusText(p.Status), p.Status)
		return
	}
	send(w, p.Status, "application/problem+json", append(body, '\n'))
}

// send sends a refusal.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(status)
	_, _ = bytes.NewReader(body).WriteTo(w) // a client that is gone needs no answer
}

// Status returns the status that fits a denial: what the rule says; otherwise 429
// if the client asks for too much, 503 if it is the limiter that cannot answer or has
// no room, 400 if the request lacks a part of the key, and 403 if no rule lets it pass.
func Status(v *policy.Verdict) int {
	if v.Rule != nil && v.Rule.WhenLimited.Status != 0 {
		return v.Rule.WhenLimited.Status
	}
	switch {
	case v.Missing != nil:
		return http.StatusBadRequest
	case v.Reason == sluice.ReasonNoRule:
		return http.StatusForbidden
	case v.Reason == sluice.ReasonStoreError, v.Reason == sluice.ReasonTableFull,
		errors.Is(v.Err, ErrTooManyWaiting), errors.Is(v.Err, sluice.ErrDeadline):
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}

// NewProblem describes a denial. It names limits, and nothing of the request but
// the name of a part that is missing.
func NewProblem(v *policy.Verdict) *Problem {
	p := &Problem{Type: TypeBlank, Status: Status(v)}
	switch {
	case v.Missing != nil:
		p.Detail = "The request lacks what it is counted by."
		if v.Missing.Name != "" {
			p.Detail = "The request lacks " + v.Missing.Name + ", by which it is counted."
		}
	case v.Reason == sluice.ReasonNoRule:
		p.Detail = "No rule lets this request pass."
	case v.Reason == sluice.ReasonStoreError:
		p.Type, p.Title = TypeReducedCapacity, "Temporarily reduced capacity"
		p.Detail = "Limits cannot be checked at the moment."
	case v.Reason == sluice.ReasonTableFull, errors.Is(v.Err, ErrTooManyWaiting), errors.Is(v.Err, sluice.ErrDeadline):
		p.Type, p.Title = TypeReducedCapacity, "Temporarily reduced capacity"
	case v.Reason == sluice.ReasonBanned:
		p.Type, p.Title = TypeAbnormalUsage, "Abnormal usage detected"
		p.ViolatedPolicies = violated(v)
	default:
		p.Type, p.Title = TypeQuotaExceeded, "Quota exceeded"
		p.ViolatedPolicies = violated(v)
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	return p
}

// violated names the limits that refused a request.
func violated(v *policy.Verdict) []string {
	var names []string
	for i := range v.Met {
		if m := &v.Met[i]; !m.Decision.Allowed && !m.Request.Shadow && m.Request.Limit != nil {
			names = append(names, m.Request.Limit.Name())
		}
	}
	if names == nil && v.TightestLimit != nil {
		names = []string{v.TightestLimit.Name()}
	}
	return names
}

// WriteDenied answers a request that is refused: as the rule says, or with a
// problem document. It sets none of the headers that Headers.Set does.
func WriteDenied(w http.ResponseWriter, r *http.Request, v *policy.Verdict) {
	if v.Rule == nil {
		NewProblem(v).Write(w)
		return
	}
	answer := &v.Rule.WhenLimited
	for name, value := range answer.Header {
		w.Header().Set(name, value)
	}
	if answer.Body == "" {
		NewProblem(v).Write(w)
		return
	}
	contentType := answer.ContentType
	if contentType == "" {
		contentType = "text/plain; charset=utf-8"
	}
	send(w, Status(v), contentType, []byte(answer.Body))
}
