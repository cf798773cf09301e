package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/policy"
)

// WriteDegraded answers a request that is degraded and not passed on, as the rule says that
// degraded it. If the rule's file cannot be read, it is a problem document with status 503, and
// the error says why; the request is answered in any case.
func WriteDegraded(w http.ResponseWriter, _ *http.Request, v *policy.Verdict) error {
	answer, h := &v.Degrade.WhenLimited, w.Header()
	wait := waitOf(h, softWait(v, v.Degrade))
	content, contentType, err := body(answer, wait, v.Degrade.Name)
	if err != nil {
		p := &Problem{Type: TypeReducedCapacity, Title: "Temporarily reduced capacity", Status: http.StatusServiceUnavailable}
		p.Write(w)
		return err
	}
	if content != nil {
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		// It is what there is at the moment, and not what was asked for.
		h.Set("Cache-Control", "no-store")
	}
	setHeader(h, answer, wait, v.Degrade.Name)
	status := answer.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(content) // a client that is gone needs no answer
	return nil
}

// softWait returns when a request would no longer be degraded or marked by a rule.
func softWait(v *policy.Verdict, r *policy.Rule) (wait time.Duration) {
	for i := range v.Results {
		if m := &v.Results[i]; m.Rule == r && !m.Decision.Allowed {
			wait = max(wait, m.Decision.RetryAfter)
		}
	}
	return wait
}

// degraded returns what handles a degraded request instead of next.
func (m *Middleware) degraded(v *policy.Verdict, next http.Handler) http.Handler {
	answer := &v.Degrade.WhenLimited
	switch {
	case answer.Answers():
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.o.OnDegraded(w, r, v) })
	case answer.Upstream == "":
		return next
	}
	if m.o.Fallback != nil {
		if h := m.o.Fallback(answer.Upstream); h != nil {
			return h
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.o.OnError(r, fmt.Errorf("httplimit: rule %q: WhenLimited.Upstream %q is unknown to Options.Fallback; the request was passed on undegraded", v.Degrade.Name, answer.Upstream))
		next.ServeHTTP(w, r)
	})
}
