package app

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/file/envoy"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
)

const forJSON = `version: 1
listen: {proxy: "off", api: "off", admin: '127.0.0.1:0', json: '127.0.0.1:0'}
rules:
  - name: per-address
    descriptor: {domain: edge, entries: [remote_address]}
    limit: {algorithm: fixed_window, rate: 1/d}
`

// Calls over HTTP are decided as calls over gRPC are, and probes need no token.
func TestCallsOverHTTPAreDecidedAsOverGRPC(t *testing.T) {
	t.Parallel()
	const call = `{"domain": "edge", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}`
	post := func(r *running, token string) string {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL(JSON)+"/json", strings.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status + " " + string(body)
	}
	r := start(t, parse(t, forJSON), nil)
	announced(t, r, "json   http://127.0.0.1:")
	if got := post(r, ""); !strings.HasPrefix(got, "200 OK") || !strings.Contains(got, `"OK"`) {
		t.Errorf("the first call got %s", got)
	}
	if got := post(r, ""); !strings.HasPrefix(got, "429 ") || !strings.Contains(got, "OVER_LIMIT") {
		t.Errorf("the second call got %s, want status 429", got)
	}
	if got := r.figure(`sluice_decision_duration_seconds_count{edge="rls"}`); got != "2" {
		t.Errorf("%s decisions", got)
	}

	const token = "0123456789abcdef"
	guarded := start(t, parse(t, forJSON), func(o *Options) { o.APIToken = token })
	if got := post(guarded, ""); !strings.HasPrefix(got, "401 ") {
		t.Errorf("without a token, the call got %s", got)
	}
	if got := post(guarded, token); !strings.HasPrefix(got, "200 ") {
		t.Errorf("with the token, the call got %s", got)
	}
	for path, want := range map[string]string{"/healthcheck": "200 OK", "/": "404 Not Found", "/v1/check": "404 Not Found"} {
		answer, err := http.Get(guarded.URL(JSON) + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.Status != want {
			t.Errorf("%s: %s, want %s", path, answer.Status, want)
		}
	}
}

// TestEnvoyPageCall sends the call that docs/envoy.md shows to a server with the files that it shows, changes the files,
// and reloads them.
func TestEnvoyPageCall(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	tree := regexp.MustCompile("(?s)```yaml\n(domain:.*?)```").FindSubmatch(page)[1]
	call := regexp.MustCompile(`curl localhost:8080/json -d '([^']*)'`).FindSubmatch(page)[1]
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(tree))
	load := func() (*config.File, error) {
		f, err := config.LoadEnvoy(dir, envoy.Options{})
		if err != nil {
			return nil, err
		}
		f.Listen = config.Listen{Admin: accept.Listener{Address: "127.0.0.1:0"}, JSON: accept.Listener{Address: "127.0.0.1:0"}}
		return f, nil
	}
	f, err := load()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, f, func(o *Options) { o.Load = load })
	post := func() int {
		t.Helper()
		answer, err := http.Post(r.URL(JSON)+"/json", "application/json", strings.NewReader(string(call)))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for i, want := range []int{200, 200, 429} {
		if got := post(); got != want {
			t.Errorf("call %d: %d, want %d", i, got, want)
		}
	}
	for series, want := range map[string]string{
		`sluice_descriptor_hits_total{descriptor="tenant_acme.path_/login*",domain="edge",rule="` + f.Rules[0].Name + `"}`:       "3",
		`sluice_descriptor_over_limit_total{descriptor="tenant_acme.path_/login*",domain="edge",rule="` + f.Rules[0].Name + `"}`: "1",
	} {
		if got := r.figure(series); got != want {
			t.Errorf("%s is %q, want %s", series, got, want)
		}
	}
	write(strings.Replace(string(tree), "requests_per_unit: 2", "requests_per_unit: 4", 1))
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{200, 429, 429} { // what was used stays used, the denied call too
		if got := post(); got != want {
			t.Errorf("call %d after the reload: %d, want %d", i, got, want)
		}
	}
	write("domain: [")
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "edge.yaml:1") {
		t.Error(err)
	}
	if got := post(); got != 429 {
		t.Errorf("%d after a mistake", got)
	}
}
