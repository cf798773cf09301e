package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/wire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deciding returns a decider by a policy over a store.
func deciding(tb testing.TB, p *policy.Policy, store sluice.Store) *policy.Decider {
	tb.Helper()
	d, err := policy.NewDecider(p, store)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// service is an API that listens.
type service struct {
	t   *testing.T
	url string
	api *API
	// described validates all that is said against the description.
	described *http.Client
	token     string
}

// serve starts an API over the rules of a YAML file; change may change its options.
func serve(t *testing.T, rules string, change func(*Options)) *service {
	t.Helper()
	s := unserved(t, rules, change)
	srv := httptest.NewServer(s.api)
	t.Cleanup(srv.Close)
	s.url, s.described.Transport.(*validator).next = srv.URL, srv.Client().Transport
	return s
}

// noOverrides are for tests that call none of them.
type noOverrides struct{ Overrides }

// unserved returns one whose calls need no network, so that it works with the clock of a synctest bubble.
func unserved(t *testing.T, rules string, change func(*Options)) *service {
	t.Helper()
	o := Options{
		Decider:     edgetest.Decider(t, rules, nil),
		Fingerprint: func(k sluice.Key) string { return fmt.Sprintf("%016x", len(k.Text())) },
	}
	o.DeniedKeys = func(context.Context, string, int) (none wire.Keys) { return none }
	o.Pressure = func(rule string) float64 { return float64(len(rule)) / 4 }
	o.Overrides = noOverrides{}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return &service{t: t, url: "http://api.example", api: a, described: &http.Client{
		Transport: &validator{t: t, next: within{a}, description: describedBy(t)}, Timeout: edgetest.Patience,
	}}
}

// within is a way to a handler in this process.
type within struct{ http.Handler }

func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// reply is what a call answers, whatever it is.
type reply struct {
	status int
	header http.Header
	decision
	Field   string
	Remedy  string
	Detail  string
	Ended   bool
	Charges int
	Lost    int
	Rules   []string
}

// call makes a call, and checks the answer against openapi.yaml.
func (s *service) call(path, body string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.send(r)
}

func (s *service) send(r *http.Request) reply {
	s.t.Helper()
	res, err := s.described.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	out := reply{status: res.StatusCode, header: res.Header}
	out.opened = new(opened)
	if err := json.Unmarshal(text, &out); err != nil {
		s.t.Fatalf("the answer is not JSON: %s: %v", text, err)
	}
	return out
}

// want checks whether a reply allows or denies.
func (s *service) want(allowed bool, path, body string) reply {
	s.t.Helper()
	r := s.call(path, body)
	if r.status != http.StatusOK || r.Allowed != allowed {
		s.t.Fatalf("%s %s: status %d, allowed %t, want %t: %s%s", path, body, r.status, r.Allowed, allowed, r.Explanation, r.Detail)
	}
	return r
}

// description is openapi.yaml as its readers see it.
type description struct {
	mu       sync.Mutex // of the compiler
	compiler *jsonschema.Compiler
	document map[string]any
}

// readDescription returns the one description of all tests.
var readDescription = sync.OnceValues(func() (*description, error) {
	text, err := yaml.YAMLToJSON(OpenAPI)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	return &description{compiler: c, document: document.(map[string]any)}, c.AddResource("openapi.json", document)
})

func describedBy(t *testing.T) *description {
	t.Helper()
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at follows a path through the document, and references on the way.
func (d *description) at(path ...string) (value map[string]any, pointer string, err error) {
	value, pointer = d.document, "#"
	for _, name := range path {
		next, ok := value[name].(map[string]any)
		if !ok {
			return nil, "", fmt.Errorf("openapi.yaml has no %q at %s", name, pointer)
		}
		value, pointer = next, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if ref, ok := value["$ref"].(string); ok {
			if value, pointer, err = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); err != nil {
				return nil, "", err
			}
		}
	}
	return value, pointer, nil
}

// check validates a JSON text against the schema at a path.
func (d *description) check(text []byte, path ...string) error {
	_, pointer, err := d.at(path...)
	if err != nil {
		return err
	}
	d.mu.Lock()
	schema, err := d.compiler.Compile("openapi.json" + pointer)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// validator checks each exchange against the description: every answer, and each
// request that was taken.
type validator struct {
	t           *testing.T
	next        http.RoundTripper
	description *description
}

func (v *validator) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := v.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	if err := v.compare(r, sent, res, answer); err != nil {
		v.t.Errorf("%s %s %s answers %d %s, which is not what openapi.yaml says: %v", r.Method, r.URL.Path, sent, res.StatusCode, answer, err)
	}
	return res, nil
}

func (v *validator) compare(r *http.Request, sent []byte, res *http.Response, answer []byte) error {
	path := r.URL.Path
	if strings.HasPrefix(path, pressurePath+"/") {
		path = pressurePath + "/{rule}"
	}
	if _, _, err := v.description.at("paths", path, strings.ToLower(r.Method)); err != nil {
		if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed {
			return v.description.check(answer, "components", "schemas", "Problem")
		}
		return err
	}
	operation := []string{"paths", path, strings.ToLower(r.Method)}
	status := fmt.Sprint(res.StatusCode)
	if _, _, err := v.description.at(append(operation, "responses", status)...); err != nil {
		status = status[:1] + "XX"
	}
	err := v.description.check(answer, append(operation, "responses", status, "content", res.Header.Get("Content-Type"), "schema")...)
	refused := bytes.Contains(answer, []byte(`{"problem":`)) // of a batch whose other requests were taken
	if res.StatusCode == http.StatusOK && len(sent) > 0 && !refused {
		err = errors.Join(err, v.description.check(sent, append(operation, "requestBody", "content", "application/json", "schema")...))
	}
	return err
}

// list gets a list, and returns the status and the text of the answer.
func (s *service) list(target string, into any) (status int, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.described.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, into); err != nil {
			s.t.Fatal(err)
		}
	}
	return res.StatusCode, string(body)
}
