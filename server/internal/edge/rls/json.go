package rls

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// HTTPHandler returns the handler of a listener for HTTP: the call at /json, behind the rules of access of the
// listener, and at /healthcheck for everybody, because the probes of orchestrators have no token, why the server is not
// ready.
func (s *Service) HTTPHandler(protect func(http.Handler) http.Handler, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		// As Envoy's users expect: 200 with OK, or 500 with the reason.
		status, text := http.StatusOK, "OK"
		if err := ready(); err != nil {
			status, text = http.StatusInternalServerError, err.Error()
		}
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the prober may be gone
	})
	mux.Handle("/json", protect(http.HandlerFunc(s.serveJSON)))
	return mux
}

// serveJSON handles POST /json: it takes and returns the messages of ShouldRateLimit as protobuf JSON.
// The status is 200 if the call passes, 429 if it is over a limit, and 400 if the request is invalid.
func (s *Service) serveJSON(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "use POST")
		return
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" && media != "application/x-www-form-urlencoded" {
			refuse(w, http.StatusUnsupportedMediaType, "send the request as application/json") // curl --data sends the other one
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxMessage))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			refuse(w, http.StatusRequestEntityTooLarge, "the request is too large")
			return
		}
		refuse(w, http.StatusBadRequest, "the request could not be read")
		return
	}
	code, answer, err := s.decideJSON(r.Context(), body)
	if err != nil {
		refuse(w, http.StatusBadRequest, status.Convert(err).Message())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(answer) // a client that is gone needs no answer
}

// decideJSON decides about a request, and returns the status and the answer.
func (s *Service) decideJSON(ctx context.Context, body []byte) (code int, answer []byte, err error) {
	q := dynamicpb.NewMessage(s.schema.request)
	if err := protojson.Unmarshal(body, q); err != nil {
		return 0, nil, invalid("the request is not a RateLimitRequest: " + err.Error())
	}
	b, err := proto.Marshal(q)
	if err != nil {
		return 0, nil, err
	}
	c := s.calls.Get().(*call)
	defer c.free()
	if err := c.UnmarshalWire(b); err != nil {
		return 0, nil, err
	}
	if err := s.decide(ctx, c); err != nil {
		return 0, nil, err
	}
	v := dynamicpb.NewMessage(s.schema.response)
	if err := proto.Unmarshal(c.out, v); err != nil {
		return 0, nil, err
	}
	if code = http.StatusOK; c.denied {
		code = http.StatusTooManyRequests
	}
	answer, err = protojson.Marshal(v)
	return code, answer, err
}

// refuse answers a request that was not decided.
func refuse(w http.ResponseWriter, code int, problem string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, problem+"\n") // the same
}
