package dashboard

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

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
			Detail: "The key is not listed any more, or its values were too long to be kept.", Remedy: "look at the list again",
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

// acting makes a call of the API about a key that the page does not show. The API records the call.
func (d *Dashboard) acting(method string, call http.Handler) func(http.ResponseWriter, *http.Request) *wire.Problem {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		q, key, p := d.find(w, r)
		if p != nil {
			return p
		}
		text, err := json.Marshal(keyOfRule{q.Rule, key})
		if err != nil {
			return invalid("digest", "The key cannot be written.", "reset it by its values") // texts are always valid
		}
		c := r.Clone(r.Context())
		c.Method, c.Body, c.ContentLength = method, io.NopCloser(bytes.NewReader(text)), int64(len(text))
		c.Header.Set("Content-Type", "application/json")
		c.Header.Set("Content-Length", strconv.Itoa(len(text)))
		call.ServeHTTP(w, c)
		return nil
	}
}
