package api

import (
	"encoding/json"
	"net/http"
)

// problem is a problem document (RFC 9457) with the field at fault and a remedy.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field is the field of the request at fault, such as "headers.X-User".
	Field string `json:"field,omitempty"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy,omitempty"`
}

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
