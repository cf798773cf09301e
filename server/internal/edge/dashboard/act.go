package dashboard

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// body is the body of a call of the page, which names a key by its digest; and then the body of the call of the API
// that it becomes, and the answer that reveals a key. The numbers are what an operator gives the key, as in
// /v1/overrides.
type body struct {
	Rule      string          `json:"rule"`
	Digest    string          `json:"digest,omitempty"`
	Key       []string        `json:"key"`
	Limit     json.RawMessage `json:"limit,omitempty"`
	Limits    json.RawMessage `json:"limits,omitempty"`
	Unlimited bool            `json:"unlimited,omitempty"`
	Deny      bool            `json:"deny,omitempty"`
	ForMS     *int64          `json:"for_ms,omitempty"`
	Until     *time.Time      `json:"until,omitempty"`
	Note      string          `json:"note,omitempty"`
}

// mostBody bounds the body of a call, in bytes.
const mostBody = 4 << 10

// find reads the body of a call, and finds the key that it means.
func (d *Dashboard) find(w http.ResponseWriter, r *http.Request, numbers bool) (q body, p *wire.Problem) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&q)
	if named := (body{Rule: q.Rule, Digest: q.Digest}); err != nil || q.Rule == "" || q.Digest == "" || q.Key != nil || !numbers && !reflect.DeepEqual(q, named) {
		return q, invalid("", "The body does not name a key, or has other fields.", `give {"rule": "…", "digest": "…"}, as GET /v1/live lists them`)
	}
	if q.Key = d.o.KeyOf(r.Context(), q.Rule, q.Digest); q.Key == nil {
		return q, &wire.Problem{
			Status: http.StatusNotFound, Title: "No such key", Field: "digest",
			Detail: "The key is not listed any more, its values were too long to be kept, or only another server may show it.", Remedy: "look at the list again, or at the page of the other server",
		}
	}
	return q, nil
}

// reveal answers with the values of a key, and records that the caller has seen them.
func (d *Dashboard) reveal(w http.ResponseWriter, r *http.Request) *wire.Problem {
	q, p := d.find(w, r, false)
	if p != nil {
		return p
	}
	if err := d.o.BeforeReveal(r, q.Rule, q.Digest); err != nil {
		return &wire.Problem{Status: http.StatusServiceUnavailable, Title: "Not recorded", Detail: "The key is not shown.", Remedy: err.Error()}
	}
	answer(w, http.StatusOK, "application/json", body{Rule: q.Rule, Key: q.Key})
	return nil
}

// acting makes a call of the API about a key that the page does not show. The API records the call.
func (d *Dashboard) acting(method string, call http.Handler) func(http.ResponseWriter, *http.Request) *wire.Problem {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		q, p := d.find(w, r, method == http.MethodPut)
		if p != nil {
			return p
		}
		q.Digest = ""
		text, _ := json.Marshal(q) // its parts were read from JSON
		c := r.Clone(r.Context())
		c.Method, c.Body, c.ContentLength = method, io.NopCloser(bytes.NewReader(text)), int64(len(text))
		c.Header.Set("Content-Type", "application/json")
		c.Header.Set("Content-Length", strconv.Itoa(len(text)))
		masking := &maskingWriter{ResponseWriter: w, status: http.StatusOK}
		call.ServeHTTP(masking, c)
		if masking.status == http.StatusOK {
			_, _ = io.WriteString(w, "{\"done\":true}\n") // the client may be gone
		}
		return nil
	}
}

// maskingWriter drops the answer of a call that succeeded, because it may have the key.
type maskingWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader notes whether the call succeeded.
func (w *maskingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write drops an answer, and writes a problem.
func (w *maskingWriter) Write(p []byte) (int, error) {
	if w.status == http.StatusOK {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
