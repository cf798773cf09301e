package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/policyfile"
)

// TestAudit makes each change by its real call, as an operator and as a stranger.
func TestAudit(t *testing.T) {
	const token = "the-token-of-operators"
	file := filepath.Join(t.TempDir(), "audit.log")
	text := free + "audit: {file: " + file + "}\n" + `rules:
  - {name: login, key: [client_ip, "header:X-User"], limit: {algorithm: token_bucket, rate: 5/m}, ban: {by_hand: true}}
`
	r := start(t, parse(t, text), func(o *Options) {
		o.Token = token
		o.Load = func() (*policyfile.File, error) { return policyfile.Parse("sluice.yaml", []byte(text)) }
	})
	bearer := []string{"Authorization", "Bearer " + token, "Sluice-Operator", "alice@ops", "Content-Type", "application/json"}
	const key = `"rule": "login", "key": ["192.0.2.1", "mallory-the-secret-user"]`
	call := func(want int, listener, method, path, body string, header ...string) {
		t.Helper()
		if res, text := r.send(listener, method, path, body, header...); res.StatusCode != want {
			t.Errorf("%s %s is answered %d %s, want %d", method, path, res.StatusCode, text, want)
		}
	}
	call(200, Admin, "POST", "/v1/bans", "{"+key+`, "for_ms": 60000}`, bearer...)
	call(200, API, "DELETE", "/v1/bans", "{"+key+"}", bearer...)
	call(200, Admin, "POST", "/v1/reset", "{"+key+"}", bearer...)
	call(200, Admin, "POST", "/v1/reset", `{"method": "GET", "path": "/", "client_ip": "192.0.2.1", "headers": {"X-User": "bob"}}`, bearer...)
	call(400, Admin, "POST", "/v1/reset", `{"rule": "mallory-the-secret-user", "key": []}`, bearer...)
	call(400, Admin, "POST", "/v1/bans", "{"+key+"}", bearer...)
	call(401, Admin, "POST", "/v1/bans", "{"+key+`, "for_ms": 60000}`, "Authorization", "Bearer not-"+token)
	call(401, API, "POST", "/v1/reset", "{"+key+"}")
	call(200, Admin, "GET", "/v1/bans", "", bearer...) // changes nothing
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "5/m", "50/m", 1)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	text = "version: 1\nrules: 5\n"
	if r.Reload() == nil {
		t.Fatal("a bad file is applied")
	}
	for range 100 { // a stranger cannot fill the disk
		call(401, API, "POST", "/v1/reset", "{"+key+"}")
	}
	r.end()

	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{token, "mallory", "192.0.2.1\""} {
		if strings.Contains(string(content), secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
	var lines []string
	var flood, counted int
	for line := range strings.Lines(string(content)) {
		var x record
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if x.Time.IsZero() {
			t.Errorf("a record has no time: %s", line)
		}
		if x.From != "" && (!strings.HasPrefix(x.From, "127.0.0.1:") || !strings.HasPrefix(x.At, "127.0.0.1:")) {
			t.Errorf("the caller is not named: %s", line)
		}
		if x.Why == "401 Not authorized" && x.Action == "reset" {
			flood, counted = flood+1, counted+x.NotRecorded
			if flood > 1 {
				continue
			}
		}
		if x.Key != "" && len(x.Key) != 16 {
			t.Errorf("the key is %q", x.Key)
		}
		lines = append(lines, fmt.Sprint(x.Action, " ", x.By, " ", x.Claimed, " ", x.Path, x.Rules, x.Key != "", x.ForMS, x.Changed, x.Result, " ", x.Why))
	}
	want := []string{
		"start   [] false 0 []done ",
		"ban token alice@ops [login] true 60000 []done ",
		"unban token alice@ops [login] true 0 []done ",
		"reset token alice@ops [login] true 0 []done ",
		"reset token alice@ops [login] true 0 []done ",
		"reset token alice@ops [] false 0 []refused 400 Invalid request",
		"ban token alice@ops [login] true 0 []refused 400 Invalid request",
		"call no proof  /v1/bans[] false 0 []refused Not authorized",
		"reset no proof  [] false 0 []refused 401 Not authorized",
		"reload   [] false 0 []done ",
		"reload   [] false 0 [rules]done ",
		"reload   [] false 0 []refused sluice.yaml:2:8: rules: is 5, and a list, each entry of which begins with a dash is wanted",
		"stop   [] false 0 []done ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if flood > 1+refusedPerSecond*3 || flood+counted > 101 {
		t.Errorf("of 101 refused calls %d are recorded and %d counted", flood, counted)
	}
}
