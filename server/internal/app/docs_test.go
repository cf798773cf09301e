package app

import (
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedCallsAreAnswered sends each call that the API's page shows to a
// quick start, and finds the printed answer, field by field, in the answer to the
// first one; and the answer to one more that is denied.
func TestDocumentedCallsAreAnswered(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`curl -s http://127\.0\.0\.1:8081(\S+) -d '([^']+)'`).FindAllStringSubmatch(string(text), -1)
	printed := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(calls) < 2 || len(printed) != 2 {
		t.Fatalf("docs/api.md shows %d calls and %d answers", len(calls), len(printed))
	}
	r := quickStarted(t)
	for i, call := range calls {
		res, body := r.send(API, http.MethodPost, call[1], call[2])
		if res.StatusCode != http.StatusOK {
			t.Errorf("the documented call %s got %d %s", call[0], res.StatusCode, body)
		}
		if i > 0 {
			continue
		}
		var got, want map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(strings.NewReader(printed[0][1])).Decode(&want); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %v, and %v in docs/api.md", call[0], name, got[name], value)
			}
		}
	}
	var got shownDenial
	var body string
	for got.Allowed = true; got.Allowed; {
		_, body = r.send(API, http.MethodPost, calls[0][1], calls[0][2])
		got = shownDenial{}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
	}
	var want shownDenial
	if err := json.Unmarshal([]byte(printed[1][1]), &want); err != nil {
		t.Fatal(err)
	}
	// Times go on.
	got.Answer.Headers["Retry-After"], got.Answer.Headers["Ratelimit"] = want.Answer.Headers["Retry-After"], want.Answer.Headers["Ratelimit"]
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a denial is answered %s; docs/api.md has %s", body, printed[1][1])
	}
}

// shownDenial is what docs/api.md shows of one.
type shownDenial struct {
	Allowed      bool
	Action, Rule string
	Answer       struct {
		Status  int
		Headers map[string]string
		Body    string
	}
}
