package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
)

// TestEachChangeIsAudited makes each change by its real call, as an operator and as a stranger.
func TestEachChangeIsAudited(t *testing.T) {
	const token = "the-token-of-operators"
	file := filepath.Join(t.TempDir(), "audit.log")
	text := free + "audit: {file: " + file + "}\n" + `rules:
  - {name: login, key: [client_ip, "header:X-User"], limit: {algorithm: token_bucket, rate: 5/m}, ban: {by_hand: true}}
`
	r := start(t, parse(t, text), func(o *Options) {
		o.Token = token
		o.Load = func() (*config.File, error) { return config.Parse("sluice.yaml", []byte(text)) }
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
		var x audit.Record
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("a line of the audit log is not JSON: %v: %s", err, line)
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
		"ban token alice@ops [login] true 60000 []begun ",
		"ban token alice@ops [login] true 60000 []done ",
		"unban token alice@ops [login] true 0 []begun ",
		"unban token alice@ops [login] true 0 []done ",
		"reset token alice@ops [login] true 0 []begun ",
		"reset token alice@ops [login] true 0 []done ",
		"reset token alice@ops [login] true 0 []begun ",
		"reset token alice@ops [login] true 0 []done ",
		"reset token alice@ops [] false 0 []begun ",
		"reset token alice@ops [] false 0 []refused 400 Invalid request",
		"ban token alice@ops [login] true 0 []refused 400 Invalid request",
		"call no proof  /v1/bans[] false 0 []refused Not authorized",
		"reset no proof  [] false 0 []refused 401 Not authorized",
		"reload   [] false 0 []done ",
		"reload   [] false 0 [rules]done ",
		"reload   [] false 0 []refused sluice.yaml:2:8: rules: is 5, and a list, each entry of which begins with a dash is wanted; write rules: and below it, further to the right, - before the first setting of each entry",
		"stop   [] false 0 []done ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if flood > 1+3*10 || flood+counted > 101 {
		t.Errorf("of 101 refused calls %d are recorded and %d counted", flood, counted)
	}
}

// TestNoisyListenerHidesNoOther: a flood of refused calls at the decision API does not keep a refused call at the admin listener
// out of the log.
func TestNoisyListenerHidesNoOther(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	r := start(t, parse(t, free+"audit: {file: "+file+"}\nrules: []\n"), func(o *Options) {
		o.Token, o.APIToken = "the-token-of-operators", "the-token-of-callers"
	})
	records := func(listener string) (n int) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, address, _ := strings.Cut(r.URL(listener), "://")
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, `"at":"`+address+`"`) {
				n++
			}
		}
		return n
	}
	for range 10 * 10 { // such calls until the bound is reached
		r.send(API, "POST", "/v1/check", "{}")
	}
	r.send(Admin, "POST", "/v1/reset", "{}")
	eventually(t, "the record of the admin listener", func() bool { return records(Admin) == 1 })
	if n := records(API); n == 0 || n >= 10*10 {
		t.Errorf("%d of %d calls are recorded", n, 10*10)
	}
}

// TestFullDisk: a call changes nothing without its record, and reports it at once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const full = "/dev/full" // each write fails as on a full disk
	if _, err := os.Stat(full); err != nil {
		t.Fatal(err)
	}
	r := start(t, parse(t, free+"audit: {file: "+full+"}\n"+bannable), nil)
	r.changesNothing("no space left on device")
	if got := r.figure("sluice_audit_refused_calls_total"); got != "4" {
		t.Errorf("%s calls are counted, want 4", got)
	}
	r.end()
	if log := r.log.String(); !strings.Contains(log, "the audit log cannot be written") || !strings.Contains(log, "the audit log was not written to its end") {
		t.Errorf("the log has %s", log)
	}
}

const bannable = `rules:
  - {name: login, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h, burst: 5}, ban: {by_hand: true}}
`

const keyOfLogin = `{"rule": "login", "key": ["192.0.2.1"]`

// unitsOfLogin returns how many units a peek reports, -1 for a banned key.
func (r *running) unitsOfLogin() int64 {
	r.t.Helper()
	_, text := r.send(Admin, "POST", "/v1/peek", keyOfLogin+"}")
	var verdict struct {
		Reason string
		Limits []struct{ Remaining int64 }
	}
	if err := json.Unmarshal([]byte(text), &verdict); err != nil || len(verdict.Limits) != 1 {
		r.t.Fatalf("the peek shows no single limit: %v: %s", err, text)
	}
	if verdict.Reason == "banned" {
		return -1
	}
	return verdict.Limits[0].Remaining
}

// changesNothing bans and resets keys while the audit log takes nothing.
func (r *running) changesNothing(why string) {
	r.t.Helper()
	if res, text := r.send(API, "POST", "/v1/check", keyOfLogin+"}"); res.StatusCode != http.StatusOK {
		r.t.Fatalf("the check failed: %s", text)
	}
	before := r.unitsOfLogin()
	for _, x := range [][3]string{
		{"POST", "/v1/bans", keyOfLogin + `, "for_ms": 60000}`},
		{"POST", "/v1/reset", keyOfLogin + "}"},
		{"POST", "/v1/reset", `{"method": "GET", "path": "/", "client_ip": "192.0.2.1"}`},
		{"DELETE", "/v1/bans", keyOfLogin + "}"},
	} {
		began := time.Now()
		res, text := r.send(Admin, x[0], x[1], x[2])
		if took := time.Since(began); res.StatusCode != http.StatusServiceUnavailable || took > patience/2 {
			r.t.Errorf("%s %s is answered %d after %v", x[0], x[1], res.StatusCode, took)
		}
		for _, want := range []string{"Nothing was changed.", "the audit log cannot be written", why, "free the disk of audit.file"} {
			if !strings.Contains(text, want) {
				r.t.Errorf("the answer lacks %q: %s", want, text)
			}
		}
	}
	if after := r.unitsOfLogin(); after != before {
		r.t.Errorf("%d units are left, before the calls %d", after, before)
	}
}
