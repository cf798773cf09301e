package httplimit

import (
	"fmt"
	"mime"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// WriteDenied answers a request that is refused: as set in the rule, or with a problem document. If the
// rule's file cannot be read, it writes a problem document and returns an error; the request is
// answered in any case. It does not set the headers that Headers.Set sets. In the rule's answer, {wait}
// repeats their Retry-After.
//
// A call of gRPC over HTTP/2 is refused with a status of gRPC, such as RESOURCE_EXHAUSTED. With a nil
// request, as for an answer that another program sends, it is refused like others.
func WriteDenied(w http.ResponseWriter, r *http.Request, v *policy.Verdict) error {
	if denial.IsGRPC(r) {
		writeGRPC(w, r, v)
		return nil
	}
	if !denial.Denies(v.Rule) {
		denial.NewProblem(v).Write(w)
		return nil
	}
	answer := &v.Rule.WhenLimited
	wait := waitOf(w.Header(), denial.RetryAfter(v))
	content, contentType, err := body(answer, wait, v.Rule.Name)
	if err != nil || content == nil {
		setHeader(w.Header(), answer, wait, v.Rule.Name)
		denial.NewProblem(v).Write(w)
		return err
	}
	denial.SetHeaders(w.Header(), contentType, len(content))
	setHeader(w.Header(), answer, wait, v.Rule.Name)
	w.WriteHeader(denial.Status(v))
	_, _ = w.Write(content) // a client that is gone needs no answer
	return nil
}

// WriteDegraded answers a degraded request that is not passed on, as set in the rule that degraded
// it. If the rule's file cannot be read, the answer is a problem document with status 503, and the
// error has the reason. The request is answered in any case.
func WriteDegraded(w http.ResponseWriter, _ *http.Request, v *policy.Verdict) error {
	answer, h := &v.Degrade.WhenLimited, w.Header()
	wait := waitOf(h, advisoryWait(v, v.Degrade))
	content, contentType, err := body(answer, wait, v.Degrade.Name)
	if err != nil {
		p := &denial.Problem{Type: denial.TypeReducedCapacity, Title: "Temporarily reduced capacity", Status: http.StatusServiceUnavailable}
		p.Write(w)
		return err
	}
	if content != nil {
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		// The answer is temporary, and is not what the client requested.
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

// advisoryWait returns when a request would no longer be degraded or marked by a rule.
func advisoryWait(v *policy.Verdict, r *policy.Rule) (wait time.Duration) {
	for i := range v.Results {
		if m := &v.Results[i]; m.Rule == r && !m.Decision.Allowed {
			wait = max(wait, m.Decision.RetryAfter)
		}
	}
	return wait
}

// degraded returns the handler of a degraded request; next if the request is passed on.
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

// expand fills in {wait}, in seconds, and {rule}. Other text in braces stays, because bodies are often
// JSON.
func expand(text string, wait int64, rule string) string {
	if strings.IndexByte(text, '{') < 0 {
		return text
	}
	return strings.NewReplacer("{wait}", strconv.FormatInt(wait, 10), "{rule}", rule).Replace(text)
}

// body returns the body of a rule's answer and its type, both empty if the rule has none.
func body(r *policy.LimitedAction, wait int64, rule string) (content []byte, contentType string, err error) {
	contentType = r.ContentType
	switch {
	case r.File != "":
		if content, err = denial.File(r, rule); err != nil {
			return nil, "", err
		}
		if contentType == "" {
			contentType = mime.TypeByExtension(filepath.Ext(r.File))
		}
		content = []byte(expand(string(content), wait, rule))
	case r.Body != "":
		content = []byte(expand(r.Body, wait, rule))
	default:
		return nil, "", nil
	}
	if contentType == "" {
		contentType = "text/plain; charset=utf-8"
	}
	return content, contentType, nil
}

// setHeader sets the headers of a rule's answer.
func setHeader(h http.Header, r *policy.LimitedAction, wait int64, rule string) {
	for name, value := range r.Header {
		h.Set(name, expand(value, wait, rule))
	}
}

// waitOf returns the wait to write in an answer, in seconds: Retry-After if it is set, otherwise wait.
func waitOf(h http.Header, wait time.Duration) int64 {
	if told, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil {
		return told
	}
	return seconds(wait)
}
