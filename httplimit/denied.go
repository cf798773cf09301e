package httplimit

import (
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Status returns the status that fits a denial: what the rule says; otherwise 429
// if the client asks for too much, 503 if it is the limiter that cannot answer or has
// no room, 400 if the request lacks a part of the key or costs less than nothing, and
// 403 if no rule lets it pass.
func Status(v *policy.Verdict) int {
	switch {
	case v.Rule != nil && v.Rule.WhenLimited.Status != 0:
		return v.Rule.WhenLimited.Status
	case v.Missing != nil, isInvalid(v.Err):
		return http.StatusBadRequest
	case v.Reason == sluice.ReasonNoRule:
		return http.StatusForbidden
	case isBusy(v):
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}

// WriteDenied answers a request that is refused: as the rule says, or with a
// problem document. It sets none of the headers that Headers.Set does.
func WriteDenied(w http.ResponseWriter, _ *http.Request, v *policy.Verdict) {
	if v.Rule != nil {
		answer := &v.Rule.WhenLimited
		for name, value := range answer.Header {
			w.Header().Set(name, value)
		}
		if answer.Body != "" {
			contentType := answer.ContentType
			if contentType == "" {
				contentType = "text/plain; charset=utf-8"
			}
			send(w, Status(v), contentType, []byte(answer.Body))
			return
		}
	}
	NewProblem(v).Write(w)
}

// send sends a refusal.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	values := &[4]string{contentType, strconv.Itoa(len(body)), "no-store", "nosniff"}
	for i, name := range [...]string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options"} {
		h[name] = values[i : i+1 : i+1]
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}
