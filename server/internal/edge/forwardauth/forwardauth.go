package forwardauth

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// Path is the path of the one page.
const Path = "/auth"

// Handler decides about the requests that gateways describe. It is safe for concurrent use.
type Handler struct {
	decider *gateway.Decider
	trusts  func(r *http.Request) bool
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler. The function trusts reports whether a request comes from a gateway. Other clients get no
// decision.
func New(d *gateway.Decider, trusts func(r *http.Request) bool) *Handler {
	return &Handler{decider: d, trusts: trusts}
}

// ServeHTTP answers one request of a gateway.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !h.trusts(r):
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
	q := httplimit.Report{KeepsHeader: true}
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
	client, v, denied := h.decider.Admit(r.Context(), &q, nil)
	h.answer(w, client, v, denied)
}

// answer answers the gateway: with the refusal, or with the headers for the request that it passes on.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, v *policy.Verdict, denied bool) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(http.StatusServiceUnavailable) // the gateway is gone
		return
	}
	if denied {
		h.decider.WriteDenied(w, v)
		return
	}
	h.decider.SetLimits(w.Header(), v)
	h.pass(w.Header(), r, v)
}

// pass sets the headers that the gateway copies to the request that it passes on.
func (h *Handler) pass(header http.Header, r *http.Request, v *policy.Verdict) {
	d := h.decider
	for _, name := range v.Policy().ReservedHeaders() {
		if lines := r.Header[name]; len(lines) > 0 && d.Reserved(r) == nil {
			header[name] = lines[:1] // of a hop whose marks are trusted
		}
	}
	if v.Mark == nil && v.Degrade == nil {
		return
	}
	set, _ := d.PassedHeaders(r, v)
	maps.Copy(header, set)
	if v.Degrade != nil && len(set[removal.Degraded]) == 0 {
		header[removal.Degraded] = []string{v.Degrade.Name}
	}
}
