package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Requests beyond a limit go to another service; where that is can change while the server runs, if it is somewhere.
func TestDegradedRequestsGoElsewhere(t *testing.T) {
	less := behind(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "less ", r.Header.Get("Sluice-Marked")) })
	least := behind(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "least") })
	page := filepath.Join(t.TempDir(), "page.txt")
	if err := os.WriteFile(page, []byte("{rule} is over"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(answer string) string {
		return free + "upstream: " + behind(t, hello) +
			"\nrules: [{name: soft, key: [global], limit: {algorithm: fixed_window, rate: 1/h}, when_limited: {action: degrade, " + answer + "}}]"
	}
	text := config("upstream: " + less)
	r := reloading(t, text)
	ask := func(want string) {
		t.Helper()
		res, body := r.ask(Proxy, http.MethodPost, "/", "text", "Sluice-Marked", "yes")
		if res.StatusCode != http.StatusOK || body != want {
			t.Errorf("answers %d %q; want %q", res.StatusCode, body, want)
		}
	}
	ask("hello")
	ask("less ")
	for _, c := range []struct{ answer, want string }{
		{"upstream: " + least, "least"},
		{"upstream: 'least'", "least"}, // which is refused
		{"file: " + page, "soft is over"},
		{"file: " + page + "2", "soft is over"},
		{"body: 'again in {rule}'", "again in soft"},
	} {
		r.write(replaceAnswer(text, less, c.answer))
		_ = r.Reload()
		ask(c.want)
	}
}

// replaceAnswer puts another answer in place of the upstream that a configuration degrades to.
func replaceAnswer(text, upstream, answer string) string {
	old := "upstream: " + upstream + "}}]"
	return text[:len(text)-len(old)] + answer + "}}]"
}
