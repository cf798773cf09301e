package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/share"
)

// A caller that got no answer does not know whether it was charged. With the header Idempotency-Key
// (draft-ietf-httpapi-idempotency-key-header) it may repeat the call: the same call with the same key gets the first
// answer, and nothing is charged twice.

// idempotencyHeader is the header in the form of net/http.
const idempotencyHeader = "Idempotency-Key"

// The bounds of keys.
const (
	maxIdempotencyKey   = 128
	mostReplays         = 1 << 16
	mostReplayBytes     = 64 << 20
	replaysLast         = 10 * time.Minute
	replayedHeader      = "Idempotency-Replayed"
	replayBytes         = 512 // what an answer counts besides its body
	remedyOfIdempotency = "give 1 to 128 letters, digits and punctuation, such as a UUID"
)

// replays keep the answers of calls with a key for some time.
type replays struct {
	now func() time.Time

	mu    sync.Mutex
	byKey map[digest]*replay
	ended []*replay // oldest first
	// The room that callers take.
	calls, bytes *share.Room
}

type digest = [sha256.Size]byte

// replay is a call with a key.
type replay struct {
	key, body digest
	caller    string
	done      chan struct{} // closed when the call has ended
	// These are set before done is closed.
	answered bool // whether there is an answer to repeat
	at       time.Time
	status   int
	header   http.Header
	text     []byte
}

func newReplays() *replays {
	return &replays{
		now: time.Now, byKey: map[digest]*replay{}, calls: share.NewRoom(mostReplays), bytes: share.NewRoom(mostReplayBytes),
	}
}

// begin finds the call of a key, or begins it. A request that begins a call must end it. Without a result there is no
// room for the caller.
func (s *replays) begin(caller string, key, body digest) (r *replay, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ended) > 0 && s.now().Sub(s.ended[0].at) >= replaysLast {
		old := s.ended[0]
		s.ended[0], s.ended = nil, s.ended[1:]
		s.calls.Take(old.caller, -1)
		s.bytes.Take(old.caller, -old.size())
		delete(s.byKey, old.key)
	}
	if r := s.byKey[key]; r != nil {
		return r, false
	}
	if !s.calls.IsFree(caller) || !s.bytes.IsFree(caller) {
		return nil, false
	}
	r = &replay{key: key, body: body, caller: caller, done: make(chan struct{})}
	s.byKey[key] = r
	s.calls.Take(caller, 1)
	return r, true
}

// end ends a call. Without an answer, the next call of the key decides.
func (s *replays) end(r *replay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.answered {
		r.at = s.now()
		s.ended = append(s.ended, r)
		s.bytes.Take(r.caller, r.size())
	} else {
		delete(s.byKey, r.key)
		s.calls.Take(r.caller, -1)
	}
	close(r.done)
}

func (r *replay) size() int { return replayBytes + len(r.text) }

// idempotent lets callers repeat a call.
func (a *API) idempotent(serve func(http.ResponseWriter, *http.Request) *problem) func(http.ResponseWriter, *http.Request) *problem {
	return func(w http.ResponseWriter, r *http.Request) *problem {
		keys := r.Header[idempotencyHeader]
		if keys == nil {
			return serve(w, r)
		}
		if p := checkIdempotencyKey(keys); p != nil {
			return p
		}
		b := buffers.Get().(*[]byte)
		defer keep(b)
		if p := readBody(r, b); p != nil {
			return p
		}
		body := sha256.Sum256(*b)
		for {
			call, begun := a.replays.begin(callerOf(r), replayKey(r, keys[0]), body)
			switch {
			case call == nil:
				return &problem{
					Status: http.StatusServiceUnavailable, Title: "Too many keys", Field: idempotencyHeader,
					Detail: "This caller made too many calls with an Idempotency-Key lately.", Remedy: "try again later, or leave the key out",
				}
			case call.body != body:
				return &problem{
					Status: http.StatusUnprocessableEntity, Title: "Another request", Field: idempotencyHeader,
					Detail: "This Idempotency-Key was sent with another request.", Remedy: "give each request a key of its own",
				}
			case begun:
				return a.first(w, r, *b, call, serve)
			}
			select {
			case <-call.done:
			case <-r.Context().Done():
				return unavailable("The first call with this Idempotency-Key has not ended.", "try again later")
			}
			if call.answered {
				call.write(w)
				return nil
			}
		}
	}
}

// first makes the first call of a key. It goes on when the client leaves, so that its answer becomes known.
func (a *API) first(w http.ResponseWriter, r *http.Request, body []byte, call *replay, serve func(http.ResponseWriter, *http.Request) *problem) *problem {
	defer a.replays.end(call)
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	kept := &keptAnswer{ResponseWriter: w, status: http.StatusOK}
	switch p := serve(kept, r); {
	case p != nil && p.Unknown:
		writeProblem(kept, p)
	case p != nil:
		return p
	}
	call.answered, call.status, call.text = true, kept.status, kept.text
	call.header = w.Header().Clone()
	return nil
}

// write repeats the answer.
func (r *replay) write(w http.ResponseWriter) {
	h := w.Header()
	maps.Copy(h, r.header)
	h[replayedHeader] = []string{"true"}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.text) // the client may be gone
}

// keptAnswer keeps the answer that it passes on.
type keptAnswer struct {
	http.ResponseWriter
	status int
	text   []byte
}

// WriteHeader passes the status on.
func (k *keptAnswer) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

// Write passes a part of the body on. The call has succeeded even if the client is gone.
func (k *keptAnswer) Write(p []byte) (int, error) {
	k.text = append(k.text, p...)
	return k.ResponseWriter.Write(p)
}

// replayKey returns the key of a call: callers with other tokens or certificates, and other calls, have other keys.
func replayKey(r *http.Request, key string) digest {
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), certificate(r), key} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return digest(h.Sum(nil))
}

// certificate returns the name in the certificate that a caller has proved, empty without one. It stays when the
// certificate is renewed.
func certificate(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.String()
}

// callerOf returns the caller that takes room for answers and reservations: the name of its certificate, or its
// address. A token is not a caller, because everybody may send one to an open listener, and many programs share one.
// The address of IPv6 is its network of 64 bits.
func callerOf(r *http.Request) string {
	if name := certificate(r); name != "" {
		return name
	}
	return share.Peer(r.RemoteAddr)
}

// checkIdempotencyKey reports what is wrong with the key of a call.
func checkIdempotencyKey(keys []string) *problem {
	switch key := keys[0]; {
	case len(keys) > 1:
		return invalid(idempotencyHeader, "The header is there several times.", "send it once")
	case key == "" || len(key) > maxIdempotencyKey:
		return invalid(idempotencyHeader, fmt.Sprintf("The key has %d bytes.", len(key)), remedyOfIdempotency)
	default:
		for _, c := range []byte(key) {
			if c <= ' ' || c > '~' {
				return invalid(idempotencyHeader, "The key has characters that are not letters, digits or punctuation.", remedyOfIdempotency)
			}
		}
		return nil
	}
}
