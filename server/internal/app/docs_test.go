package app

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedCallsAreAnswered sends each call that the server's page shows to a
// quick start, and finds the answer that is printed, field by field, in that of the
// first one.
func TestDocumentedCallsAreAnswered(t *testing.T) {
	text, err := os.ReadFile("../../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`curl -s http://127\.0\.0\.1:8081(\S+) -d '([^']+)'`).FindAllStringSubmatch(string(text), -1)
	printed := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(string(text))
	if len(calls) < 2 || printed == nil {
		t.Fatalf("docs/server.md shows %d calls, and the answer: %t", len(calls), printed != nil)
	}
	r := quickStarted(t)
	for i, call := range calls {
		res, body := r.ask(API, http.MethodPost, call[1], call[2])
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", call[0], res.StatusCode, body)
		}
		if i > 0 {
			continue
		}
		var got, want map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(strings.NewReader(printed[1])).Decode(&want); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %v, and %v in docs/server.md", call[0], name, got[name], value)
			}
		}
	}
}
