package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Requests beyond a limit go to another service; where that is can change while the server runs, if it is somewhere.
func TestDegradedRequestsGoElsewhere(t *testing.T) {
	t.Parallel()
	less := behind(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "less ", r.Header.Get("Sluice-Marked")) })
	least := behind(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "least") })
	page := filepath.Join(t.TempDir(), "page.txt")
	if err := os.WriteFile(page, []byte("{rule} is over"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(answer string) string {
		return free + "upstream: " + behind(t, hello) +
			"\nrules: [{name: less, key: [global], limit: {algorithm: fixed_window, rate: 1/h}, when_limited: {action: degrade, " + answer + "}}]"
	}
	text := config("upstream: " + less)
	r := reloading(t, text)
	ask := func(want string) {
		t.Helper()
		res, body := r.send(Proxy, http.MethodPost, "/", "text", "Sluice-Marked", "yes")
		if res.StatusCode != http.StatusOK || body != want {
			t.Errorf("answers %d %q; want %q", res.StatusCode, body, want)
		}
	}
	ask("hello")
	ask("less ")
	for _, c := range []struct{ answer, want string }{
		{"upstream: " + least, "least"},
		{"upstream: 'least'", "least"}, // which is refused
		{"file: " + page, "less is over"},
		{"file: " + page + "2", "less is over"},
		{"body: 'again in {rule}'", "again in less"},
	} {
		r.write(replaceAnswer(text, less, c.answer))
		_ = r.Reload()
		ask(c.want)
	}
}

// The file of an answer that goes while the server runs leaves a problem document, and the log says why.
func TestFilesOfAnswersThatGo(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.txt")
	if err := os.WriteFile(page, []byte("{rule} is over"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, parse(t, free+"upstream: "+behind(t, hello)+`
rules:
  - {name: firm, match: {path: /firm}, key: global, limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}, when_limited: {file: '`+page+`'}}
  - {name: less, match: {path: /less}, key: global, limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}, when_limited: {action: degrade, file: '`+page+`'}}
`), nil)
	const line = "the answer of a rule cannot be sent"
	for path, rule := range map[string]string{"/firm": "firm", "/less": "less"} {
		for _, want := range []string{"hello", rule + " is over"} {
			if _, body := r.send(Proxy, http.MethodGet, path, ""); body != want {
				t.Fatalf("%s answers %q; want %q", path, body, want)
			}
		}
	}
	if log := r.log.String(); strings.Contains(log, line) {
		t.Fatalf("logged:\n%s", log)
	}
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule   string
		status int
		send   func() (reply, string)
	}{
		{"firm", http.StatusTooManyRequests, func() (reply, string) { return r.send(Proxy, http.MethodGet, "/firm", "") }},
		{"less", http.StatusServiceUnavailable, func() (reply, string) { return r.send(Proxy, http.MethodGet, "/less", "") }},
		{"firm", http.StatusOK, func() (reply, string) { return r.send(API, http.MethodPost, "/v1/check", `{"path": "/firm"}`) }},
		{"less", http.StatusOK, func() (reply, string) { return r.send(API, http.MethodPost, "/v1/check", `{"path": "/less"}`) }},
	} {
		before := len(r.log.String())
		eventually(t, "a line about "+c.rule, func() bool {
			res, body := c.send()
			if res.StatusCode != c.status || !strings.Contains(body, "application/problem+json") && res.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("rule %s without its file: %d %s, want a problem document with %d", c.rule, res.StatusCode, body, c.status)
			}
			for logged := range strings.Lines(r.log.String()[before:]) {
				if strings.Contains(logged, line) && strings.Contains(logged, `rule \"`+c.rule+`\"`) && strings.Contains(logged, page) {
					return true
				}
			}
			return false // there are only so many lines a second
		})
	}
}

// replaceAnswer puts another answer in place of the upstream that a configuration degrades to.
func replaceAnswer(text, upstream, answer string) string {
	old := "upstream: " + upstream + "}}]"
	return text[:len(text)-len(old)] + answer + "}}]"
}
