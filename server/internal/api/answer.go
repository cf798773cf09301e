package api

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// answer is what a request gets that is not passed on, from whoever asked about it: what the proxy would send.
type answer struct {
	Status int `json:"status"`
	// Headers have one value each. The length of the body is not among them.
	Headers map[string]string `json:"headers"`
	// Body is the text, or in base64 what is none.
	Body   string `json:"body,omitempty"`
	Base64 bool   `json:"base64,omitempty"`
	// BodyBytes is the size of a body that is too large to be told.
	BodyBytes int `json:"body_bytes,omitempty"`
}

// maxAnswer bounds the bodies that are told, in bytes.
const maxAnswer = 64 << 10

// answerTo returns what a request gets, nil for one that is passed on.
func (a *API) answerTo(v *policy.Verdict) *answer {
	refused := !v.Allowed()
	if !refused && (v.Degrade == nil || !v.Degrade.WhenLimited.Answers()) {
		return nil
	}
	w := &written{header: http.Header{}}
	a.o.Headers.Set(w.header, v)
	write := httplimit.WriteDegraded
	if refused {
		write = httplimit.WriteDenied
	}
	if err := write(w, nil, v); err != nil {
		a.o.AnswerFailed(err)
	}
	w.header.Del("Content-Length") // whoever sends it knows
	told := &answer{Status: w.status, Headers: make(map[string]string, len(w.header))}
	for name, values := range w.header {
		told.Headers[name] = strings.Join(values, ", ")
	}
	switch {
	case len(w.body) > maxAnswer:
		told.BodyBytes = len(w.body)
	case utf8.Valid(w.body):
		told.Body = string(w.body)
	default:
		told.Body, told.Base64 = base64.StdEncoding.EncodeToString(w.body), true
	}
	return told
}

// written is a response that goes nowhere.
type written struct {
	header http.Header
	status int
	body   []byte
}

var _ http.ResponseWriter = (*written)(nil)

func (w *written) Header() http.Header { return w.header }

func (w *written) WriteHeader(status int) { w.status = status }

func (w *written) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}
