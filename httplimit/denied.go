package httplimit

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Status returns the status that fits a denial: what the rule says; otherwise 429 if the client
// asks for too much, 503 if it is the limiter that cannot answer or has no room, 400 if the
// request lacks a part of the key, costs less than nothing or asks for no path, and 403 if no
// rule lets it pass, or it is on a list of those to refuse.
func Status(v *policy.Verdict) int {
	switch {
	case denies(v.Rule) && v.Rule.WhenLimited.Status != 0:
		return v.Rule.WhenLimited.Status
	case v.Missing != nil, isInvalid(v.Err), errors.Is(v.Refused, errTarget):
		return http.StatusBadRequest
	case v.Reason == sluice.ReasonNoRule, v.Reason == sluice.ReasonListed:
		return http.StatusForbidden
	case isBusy(v):
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}

// denies reports whether the answer of a rule is one of refusal.
func denies(r *policy.Rule) bool {
	return r != nil && r.WhenLimited.Action != policy.Degrade && r.WhenLimited.Action != policy.Mark
}

// WriteDenied answers a request that is refused: as the rule says, or with a
// problem document, as also where the rule's file cannot be read; the error says why then, and the
// request is answered in any case. It sets none of the headers that Headers.Set does, and tells the
// wait that those do.
func WriteDenied(w http.ResponseWriter, _ *http.Request, v *policy.Verdict) error {
	if !denies(v.Rule) {
		NewProblem(v).Write(w)
		return nil
	}
	answer := &v.Rule.WhenLimited
	wait := waitOf(w.Header(), retryAfter(v))
	content, contentType, err := body(answer, wait, v.Rule.Name)
	if err != nil || content == nil {
		setHeader(w.Header(), answer, wait, v.Rule.Name)
		NewProblem(v).Write(w)
		return err
	}
	setRefusal(w.Header(), contentType, len(content))
	setHeader(w.Header(), answer, wait, v.Rule.Name)
	w.WriteHeader(Status(v))
	_, _ = w.Write(content) // a client that is gone needs no answer
	return nil
}

// send sends a refusal.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	setRefusal(w.Header(), contentType, len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// setRefusal sets the headers of a refusal.
func setRefusal(h http.Header, contentType string, length int) {
	values := &[4]string{contentType, strconv.Itoa(length), "no-store", "nosniff"}
	for i, name := range [...]string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options"} {
		h[name] = values[i : i+1 : i+1]
	}
}
