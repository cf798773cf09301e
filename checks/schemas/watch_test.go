package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// watched is a proxy before the API that compares each exchange with the description.
type watched struct {
	t        *testing.T
	url      string
	document *openapi3.T
	router   routers.Router
	mu       sync.Mutex
	seen     map[string][]int // statuses, by operation
}

// watch starts a proxy before an API.
func watch(t *testing.T, api string) *watched {
	t.Helper()
	w := &watched{t: t, seen: map[string][]int{}}
	var err error
	if w.document, err = openapi3.NewLoader().LoadFromFile(description); err != nil {
		t.Fatal(err)
	}
	if err := w.document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.document.Servers = nil // the router would expect their addresses
	if w.router, err = legacy.NewRouter(w.document); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		if err := w.compare(r, sent, answer); err != nil {
			t.Errorf("%s %s %.200s answers %d %s, which is not what openapi.yaml says: %v", r.Method, r.URL, sent, answer.Code, answer.Body, err)
		}
		header := rw.Header()
		for name, lines := range answer.Header() {
			header[name] = lines
		}
		rw.WriteHeader(answer.Code)
		_, _ = rw.Write(answer.Body.Bytes()) // the client may be gone
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// usual are headers that any answer may have.
var usual = []string{"Cache-Control", "Content-Length", "Content-Type", "Date", "X-Content-Type-Options"}

// compare compares an exchange with the description.
func (w *watched) compare(r *http.Request, sent []byte, answer *httptest.ResponseRecorder) error {
	ctx := r.Context()
	body := answer.Body.Bytes()
	route, parameters, err := w.router.FindRoute(r)
	if err != nil { // there is no such call
		if answer.Code != http.StatusNotFound && answer.Code != http.StatusMethodNotAllowed {
			return fmt.Errorf("there is no such call: %w", err)
		}
		var parsed any
		if err := json.Unmarshal(body, &parsed); err != nil {
			return err
		}
		w.record("none", answer.Code)
		return w.document.Components.Schemas["Problem"].Value.VisitJSON(parsed, openapi3.EnableJSONSchema2020())
	}
	w.record(route.Operation.OperationID, answer.Code)
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(sent))
	input := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	// A batch has the answer 200 also if one of its requests is not valid.
	if answer.Code < 300 {
		if err := openapi3filter.ValidateRequest(ctx, input); err != nil {
			return fmt.Errorf("the request: %w", err)
		}
	}
	response := route.Operation.Responses.Status(answer.Code)
	if response == nil {
		return fmt.Errorf("status %d is not there", answer.Code)
	}
	for name := range answer.Header() {
		if response.Value.Headers[name] == nil && response.Value.Headers[canonical[name]] == nil && !slices.Contains(usual, name) {
			return fmt.Errorf("the header %s is not there", name)
		}
	}
	result := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: answer.Code, Header: answer.Header(), Options: input.Options}
	return openapi3filter.ValidateResponse(ctx, result.SetBodyBytes(body))
}

// canonical are the names in the description of headers that net/http spells otherwise.
var canonical = map[string]string{"Www-Authenticate": "WWW-Authenticate"}

func (w *watched) record(operation string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[operation] = append(w.seen[operation], status)
}

// complete reports calls that were not made, and kinds of problems that did not come.
func (w *watched) complete() {
	w.t.Helper()
	var statuses []int
	for _, item := range w.document.Paths.Map() {
		for _, operation := range item.Operations() {
			seen := w.seen[operation.OperationID]
			if !slices.Contains(seen, http.StatusOK) {
				w.t.Errorf("call %s was not made, or never succeeded: %v", operation.OperationID, seen)
			}
			statuses = append(statuses, seen...)
		}
	}
	for _, status := range []int{400, 401, 403, 404, 409, 413, 415, 422, 429, 503} {
		if !slices.Contains(statuses, status) {
			w.t.Errorf("no call was answered %d", status)
		}
	}
	if !slices.Contains(w.seen["none"], http.StatusNotFound) || !slices.Contains(w.seen["none"], http.StatusMethodNotAllowed) {
		w.t.Errorf("calls that are not there were answered %v", w.seen["none"])
	}
}
