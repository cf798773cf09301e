package app

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The access log has each decision of the proxy and of the API, when the server has ended.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.log")
	r := start(t, parse(t, free+"access_log: {file: "+file+"}\n"+`rules: [{name: a, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: 2}}]`), nil)
	for range 3 {
		r.status(Proxy, "/path?token=secret")
	}
	r.send(API, http.MethodPost, "/v1/check", `{"rule": "a", "key": ["192.0.2.1"]}`, "Content-Type", "application/json")
	r.end()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range strings.Lines(string(text)) {
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("a line of the access log is not JSON: %v: %s", err, line)
		}
		lines = append(lines, x)
	}
	if len(lines) != 4 || strings.Contains(string(text), "secret") {
		t.Fatalf("the log has\n%s", text)
	}
	for i, want := range []struct {
		edge, path any
		allowed    bool
	}{{"proxy", "/path", true}, {"proxy", "/path", true}, {"proxy", "/path", false}, {"api", nil, true}} {
		if x := lines[i]; x["edge"] != want.edge || x["path"] != want.path || x["allowed"] != want.allowed || x["rule"] != "a" {
			t.Errorf("line %d is %v", i, x)
		}
	}
}
