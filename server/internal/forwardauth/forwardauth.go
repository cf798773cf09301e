package forwardauth

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// Path is the path of the one page.
const Path = "/auth"

// Options configure a Handler. All functions must be safe for concurrent use.
type Options struct {
	// Decider decides about requests. Required.
	Decider *httplimit.Decider
	// Gate carries out delays. It must have the decider's store. Required.
	Gate *gate.Gate
	// Trusts reports whether a request comes from a gateway. Others get no decision. Required.
	Trusts func(r *http.Request) bool
	// Headers set the rate-limit headers of answers. Default: the IETF's.
	Headers *httplimit.Headers
	// MethodOverride accepts requests with headers that replace their method: see httplimit.Report.
	MethodOverride bool
	// OnVerdict is called once for each request, with the final verdict and the time that the decision took. It
	// must not keep or change the verdict. Optional.
	OnVerdict func(v *policy.Verdict, took time.Duration)
	// OnError gets the store's errors. Optional.
	OnError func(error)
	// AnswerFailed is called with the reason why the answer of a rule cannot be sent. Optional.
	AnswerFailed func(error)
	// Unusable is called with the reason why a request of a gateway got no decision. Many requests can have the
	// same reason. Optional.
	Unusable func(reason string)
}

// Handler decides about the requests that gateways describe. It is safe for concurrent use.
type Handler struct{ o Options }

var _ http.Handler = (*Handler)(nil)

// New returns a handler.
func New(o Options) (*Handler, error) {
	if o.Decider == nil || o.Gate == nil || o.Trusts == nil {
		return nil, errors.New("forwardauth: Decider, Gate and Trusts are required")
	}
	if o.Headers == nil {
		h, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
		if err != nil {
			return nil, err
		}
		o.Headers = h
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(*policy.Verdict, time.Duration) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.AnswerFailed == nil {
		o.AnswerFailed = func(error) {}
	}
	if o.Unusable == nil {
		o.Unusable = func(string) {}
	}
	return &Handler{o: o}, nil
}

// ServeHTTP answers one request of a gateway.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !h.o.Trusts(r):
		h.refuse(w, errForeign)
		return
	case r.URL.Path != Path:
		h.refuse(w, errPath)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		h.refuse(w, errMethod)
		return
	}
	var q httplimit.Report
	by, bad := describe(r, &q)
	query := r.URL.RawQuery
	if by == &forwarded && query == queryOf(q.Target) {
		query = "" // Caddy adds the client's query to the path of its own request
	}
	w, wrong := denying(w, query)
	if bad == nil {
		bad = wrong
	}
	if r.ContentLength != 0 {
		bad = errBody
		withoutBody(w)
	}
	if bad != nil {
		h.refuse(w, bad)
		return
	}
	q.MethodOverride = h.o.MethodOverride
	began := time.Now()
	client, v := h.o.Decider.DecideReport(r.Context(), &q)
	h.carryOut(w, client, v, time.Since(began))
}

// carryOut carries a verdict out, as far as a gateway lets it, and answers.
func (h *Handler) carryOut(w http.ResponseWriter, r *http.Request, v policy.Verdict, took time.Duration) {
	ctx := r.Context()
	denied := v.Refused != nil
	if !denied {
		admission, err := h.o.Gate.Enter(ctx, &v)
		denied = err != nil
		admission.Leave(ctx, httplimit.UnseenOutcome(r))
	}
	h.o.OnVerdict(&v, took)
	if v.Err != nil && !v.Abandoned() {
		h.o.OnError(v.Err)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		w.WriteHeader(http.StatusServiceUnavailable) // the gateway is gone
		return
	}
	header := w.Header()
	h.o.Headers.Set(header, &v)
	if denied {
		h.o.AnswerFailed(httplimit.WriteDenied(w, r, &v))
		return
	}
	h.pass(header, r, &v)
}

// pass sets the headers that the gateway copies to the request that it passes on.
func (h *Handler) pass(header http.Header, r *http.Request, v *policy.Verdict) {
	d := h.o.Decider
	for _, name := range d.Policy().ReservedHeaders() {
		if lines := r.Header[name]; len(lines) > 0 && d.Reserved(r) == nil {
			header[name] = lines[:1] // of a hop whose marks are trusted
		}
	}
	if v.Mark == nil && v.Degrade == nil {
		return
	}
	set, _ := d.PassedHeaders(r, v)
	maps.Copy(header, set)
	if v.Degrade != nil && len(set[policy.DegradedHeader]) == 0 {
		header[policy.DegradedHeader] = []string{v.Degrade.Name}
	}
}
