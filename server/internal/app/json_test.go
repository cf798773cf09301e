package app

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const forJSON = `version: 1
listen: {proxy: "off", api: "off", admin: '127.0.0.1:0', json: '127.0.0.1:0'}
rules:
  - name: per-address
    descriptor: {domain: edge, entries: [remote_address]}
    limit: {algorithm: fixed_window, rate: 1/d}
`

// Calls over HTTP are decided as calls over gRPC are, and probes need no token.
func TestJSON(t *testing.T) {
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
		t.Error(got)
	}
	if got := post(r, ""); !strings.HasPrefix(got, "429 ") || !strings.Contains(got, "OVER_LIMIT") {
		t.Error(got)
	}
	if got := r.figure(`sluice_decision_duration_seconds_count{edge="rls"}`); got != "2" {
		t.Errorf("%s decisions", got)
	}

	const token = "0123456789abcdef"
	guarded := start(t, parse(t, strings.Replace(forJSON, "json: '127.0.0.1:0'", "json: '127.0.0.1:0'", 1)), func(o *Options) { o.APIToken = token })
	if got := post(guarded, ""); !strings.HasPrefix(got, "401 ") {
		t.Error(got)
	}
	if got := post(guarded, token); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
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
