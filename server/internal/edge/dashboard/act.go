package dashboard

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// masked names a key that the page lists without its values.
type masked struct {
	Rule   string `json:"rule"`
	Digest string `json:"digest"`
}

// keyOfRule is a key of a rule in calls of the API, and the answer of a call that reveals one.
type keyOfRule struct {
	Rule string   `json:"rule"`
	Key  []string `json:"key"`
}

// passing is an override of a key that lets all its requests pass for an hour.
type passing struct {
	keyOfRule

	Unlimited bool   `json:"unlimited"`
	ForMS     int64  `json:"for_ms"`
	Note      string `json:"note"`
}

// mostBody bounds the body of a call, in bytes.
const mostBody = 4 << 10

// find reads which key the caller means.
func (d *Dashboard) find(w http.ResponseWriter, r *http.Request) (q masked, key []string, p *wire.Problem) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil || q.Rule == "" || q.Digest == "" {
		return q, nil, invalid("", "The body does not name a key.", `give {"rule": "…", "digest": "…"}, as GET /v1/live lists them`)
	}
	if key = d.o.KeyOf(r.Context(), q.Rule, q.Digest); key == nil {
		return q, nil, &wire.Problem{
			Status: http.StatusNotFound, Title: "No such key", Field: "digest",
			Detail: "The key is not listed any more, its values were too long to be kept, or only another server may show it.", Remedy: "look at the list again, or at the page of the other server",
		}
	}
	return q, key, nil
}

// reveal answers with the values of a key, and records that the caller has seen them.
func (d *Dashboard) reveal(w http.ResponseWriter, r *http.Request) *wire.Problem {
	q, key, p := d.find(w, r)
	if p != nil {
		return p
	}
	if err := d.o.BeforeReveal(r, q.Rule, q.Digest); err != nil {
		return &wire.Problem{Status: http.StatusServiceUnavailable, Title: "Not recorded", Detail: "The key is not shown.", Remedy: err.Error()}
	}
	answer(w, http.StatusOK, "application/json", keyOfRule{q.Rule, key})
	return nil
}

// plain and pass make the bodies of calls.
func plain(k keyOfRule) any { return k }

func pass(k keyOfRule) any {
	return passing{keyOfRule: k, Unlimited: true, ForMS: time.Hour.Milliseconds(), Note: "by the page"}
}

// acting makes a call of the API about a key that the page does not show. The API records the call.
func (d *Dashboard) acting(method string, call http.Handler, body func(keyOfRule) any) func(http.ResponseWriter, *http.Request) *wire.Problem {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		q, key, p := d.find(w, r)
		if p != nil {
			return p
		}
		text, err := json.Marshal(body(keyOfRule{q.Rule, key}))
		if err != nil {
			return invalid("digest", "The key cannot be written.", "reset it by its values") // texts are always valid
		}
		c := r.Clone(r.Context())
		c.Method, c.Body, c.ContentLength = method, io.NopCloser(bytes.NewReader(text)), int64(len(text))
		c.Header.Set("Content-Type", "application/json")
		c.Header.Set("Content-Length", strconv.Itoa(len(text)))
		masking := &maskingWriter{ResponseWriter: w}
		call.ServeHTTP(masking, c)
		if masking.done {
			_, _ = io.WriteString(w, "{\"done\":true}\n") // the client may be gone
		}
		return nil
	}
}

// maskingWriter drops the answer of a call that succeeded, because it may have the key.
type maskingWriter struct {
	http.ResponseWriter

	begun, done bool
}

// WriteHeader notes whether the call succeeded.
func (w *maskingWriter) WriteHeader(status int) {
	w.begun, w.done = true, status == http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

// Write drops an answer, and writes a problem.
func (w *maskingWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.done {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
