package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// problem is what is wrong with a call.
type problem = wire.Problem

// problemType is the Type of all problems: their titles say what they are.
const problemType = "about:blank"

// invalid returns the problem of a field.
func invalid(field, detail, remedy string) *problem {
	return &problem{Status: http.StatusBadRequest, Title: "Invalid request", Field: field, Detail: detail, Remedy: remedy}
}

// unavailable returns the problem of a store that failed.
func unavailable(detail, remedy string) *problem {
	return &problem{Status: http.StatusServiceUnavailable, Title: "Store unavailable", Detail: detail, Remedy: remedy}
}

// unknown returns the problem of a change that the store may have made, and that must not be made twice.
func unknown(err error, what, where string) *problem {
	p := unavailable(what+", or that is not known: "+err.Error()+".", "see "+where+" before you repeat the call, with another Idempotency-Key")
	p.Unknown = errors.Is(err, sluice.ErrUnknownOutcome)
	return p
}

func writeProblem(w http.ResponseWriter, p *problem) {
	p.Type = problemType
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	writeJSON(w, p.Status, p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	body, err := json.Marshal(v)
	if err != nil {
		// Answers are plain data, so this does not happen.
		http.Error(w, "the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
