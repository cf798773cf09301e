package app

import (
	"bufio"
	"bytes"
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
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// limited has a rule that denies the second request of a client, a rule in shadow, and a rule with a candidate.
const limited = free + `
rules:
  - {name: login, match: {path: /login}, key: [client_ip], ban: {by_hand: true}, limit: {algorithm: token_bucket, rate: 1/h}}
  - {name: quiet, match: {path: /quiet}, key: [client_ip], shadow: true, limit: {algorithm: token_bucket, rate: 1/h}}
  - {name: tried, match: {path: /tried}, key: [client_ip], limit: {algorithm: token_bucket, rate: 5/h}, candidate: {algorithm: token_bucket, rate: 1/h}}
`

// live returns what the page gets.
func (r *running) live(query string, header ...string) (l wire.Live) {
	r.t.Helper()
	_, text := r.send(Admin, http.MethodGet, "/v1/live"+query, "", header...)
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		r.t.Fatalf("the answer of /v1/live is %s, %v", text, err)
	}
	return l
}

// check sends requests for a path to the decision API, one after another.
func (r *running) check(path string, times int, header ...string) {
	r.t.Helper()
	for range times {
		r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"path":%q,"client_ip":"192.0.2.1"}`, path), header...)
	}
}

// The page reports that it has no bans only if the store answers.
func TestTheDashboardReportsUnknownBans(t *testing.T) {
	t.Parallel()
	for store, unknown := range map[string]bool{"": false, fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", unusedAddress(t)): true} {
		if l := start(t, parse(t, limited+store), nil).live(""); l.BansUnknown != unknown || l.Bans == nil || len(l.Bans) > 0 {
			t.Errorf("with the store %q, the page has the bans %v, and they are unknown: %v; want none, and %v", store, l.Bans, l.BansUnknown, unknown)
		}
	}
}

// The page has the numbers of the metrics, keys without their values, and the words of the rules.
func TestTheDashboardIsTheMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, limited), nil)
	r.check("/login", 4)
	r.check("/quiet", 3)
	r.check("/tried", 2)
	r.check("/other", 1)
	l := r.live("")
	for _, rule := range l.Rules {
		for i, name := range l.Figures[:len(l.Figures)-1] {
			if want := r.figure(fmt.Sprintf("sluice_decisions_total{outcome=%q,rule=%q}", name, rule.Rule)); fmt.Sprint(rule.Totals[i]) != want {
				t.Errorf("rule %s has %d requests %s, and %s in the metrics", rule.Rule, rule.Totals[i], name, want)
			}
		}
	}
	if n := len(l.Rules); n != 4 || l.Rules[0].Rule != "login" || l.Rules[3].Rule != telemetry.NoRule {
		t.Errorf("the rules are %+v", l.Rules)
	}
	if got := l.Rules[2].Totals[len(l.Figures)-1]; got != 1 {
		t.Errorf("the candidate denied %d requests", got)
	}
	if len(l.Keys) != 3 || l.Keys[0].Rule != "login" || l.Keys[0].Denials != 3 || l.Keys[0].Now.Allowed || l.Keys[0].Key != nil || l.Keys[0].Digest == "" {
		t.Errorf("the keys are %+v", l.Keys)
	}
	if k := l.Keys[2]; k.Rule != "tried" || k.Role != "candidate" || k.Denials != 1 || k.Key != nil || !k.Now.Allowed {
		t.Errorf("the key that only a candidate denies is %+v, want 1 denial after all others", k)
	}
	if l := r.live("?rule=quiet"); len(l.Keys) != 1 || l.Keys[0].Role != "shadow" {
		t.Errorf("the keys of a rule are %+v", l.Keys)
	}
	if l.Store.Kind != "memory" || l.Store.Keys == 0 || len(l.Reloads) != 1 || l.NotReady != "" || l.Version != "test" {
		t.Errorf("the server is %+v", l)
	}
	_, text := r.send(Admin, http.MethodGet, "/v1/rules", "")
	var words wire.Rules
	if err := json.Unmarshal([]byte(text), &words); err != nil || len(words.Rules) != 3 {
		t.Fatalf("the words are %s, %v", text, err)
	}
	for i, want := range []string{"enforced", "shadow", "candidate"} {
		if w := words.Rules[i]; w.State != want || !strings.Contains(fmt.Sprint(w.Words), "each client address") || w.Bans != (i == 0) {
			t.Errorf("rule %d is described as %+v", i, w)
		}
	}
	_, text = r.send(Admin, http.MethodGet, "/v1/history?rule=login", "")
	var h wire.History
	if err := json.Unmarshal([]byte(text), &h); err != nil || !h.Known || h.Figures["denied"][h.Steps-1] != 3 {
		t.Errorf("the history is %s, %v", text, err)
	}
}

// The keys of a rule with a candidate show what the candidate would do to them. Keys with numbers of their own are not compared, nor are
// denials after the candidate is gone.
func TestTheDashboardShowsWhomACandidateFrees(t *testing.T) {
	t.Parallel()
	policy := free + `
rules:
  - name: tried
    match: {path: /tried}
    key: [client_ip]
    limit: {algorithm: token_bucket, rate: 2/d}
    candidate: {algorithm: token_bucket, rate: 5/d}
    overrides: [{key: 192.0.2.4, limit: {rate: 1/d}}]
`
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(policy)
	f, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, f, func(o *Options) { o.Load = func() (*config.File, error) { return config.Load(file) } })
	for client, times := range map[string]int{"192.0.2.1": 5, "192.0.2.2": 7, "192.0.2.3": 9, "192.0.2.4": 3, "192.0.2.5": 2} {
		for range times {
			r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"path":"/tried","client_ip":%q}`, client))
		}
	}
	listed := func() string {
		_, text := r.send(Admin, http.MethodGet, "/v1/keys", "")
		var list wire.Keys
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("the keys are %s, %v", text, err)
		}
		var all []string
		for _, k := range list.Keys {
			if c := k.Candidate; c != nil {
				all = append(all, fmt.Sprintf("%s %d of %d", k.Key[0], c.WouldDeny, c.Compared))
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	if got, want := listed(), "192.0.2.1 0 of 3, 192.0.2.2 2 of 5, 192.0.2.3 4 of 7"; got != want {
		t.Errorf("the candidate denies %s, want %s", got, want)
	}
	l := r.live("")
	if x := l.Rules[0]; x.Compared != 3 || x.Freed != 1 || len(l.Keys) != 4 {
		t.Errorf("the rule is %+v, and has %d keys; want 1 of 3 keys freed, and 4 keys", x, len(l.Keys))
	}
	reload := func(rate string) {
		write(strings.Replace(policy, "rate: 5/d", "rate: "+rate, 1))
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload("6/d")
	if got := listed(); got != "" {
		t.Errorf("a new candidate that decided nothing denies %s", got)
	}
	// A stricter candidate would newly limit a key, until it is gone.
	for _, step := range []struct {
		rate string
		want int
	}{{"1/d", 1}, {"6/d", 0}} {
		reload(step.rate)
		for range 2 * step.want {
			r.send(API, http.MethodPost, "/v1/check", `{"path":"/tried","client_ip":"192.0.2.6"}`)
		}
		_, text := r.send(Admin, http.MethodGet, "/v1/keys", "")
		if n := strings.Count(text, `"key":["192.0.2.6"]`); n != step.want || strings.Count(text, `"role":"candidate"`) != n || strings.Count(text, `"denials":1`) < n {
			t.Errorf("with a candidate of %s, the list has %d keys that only it denies, want %d: %s", step.rate, n, step.want, text)
		}
	}
}

// Operators lift bans and reset keys by their digests, and see a key. The audit log has all of it, and no key.
func TestTheDashboardActsOnMaskedKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	const token = "the-admin-token-1234"
	r := start(t, parse(t, limited+"audit: {file: "+file+"}"), func(o *Options) { o.Token = token })
	with := []string{"Authorization", "Bearer " + token}
	r.check("/login", 2)
	r.send(Admin, http.MethodPost, "/v1/bans", `{"rule":"login","key":["192.0.2.1"],"for_ms":60000}`, with...)
	l := r.live("", with...)
	if len(l.Bans) != 1 || l.Bans[0].Key != nil || l.Bans[0].Digest != l.Keys[0].Digest {
		t.Fatalf("the bans are %+v, the keys %+v", l.Bans, l.Keys)
	}
	key := fmt.Sprintf(`{"rule":"login","digest":%q}`, l.Bans[0].Digest)
	override := key[:len(key)-1] + `,"limit":{"rate":"9/h","burst":9},"for_ms":60000,"note":"ticket 7"}`
	for _, x := range [][2]string{{"/ui/unban", key}, {"/ui/reset", key}, {"/ui/reveal", key}, {"/ui/override", override}} {
		path, key := x[0], x[1]
		if res, text := r.send(Admin, http.MethodPost, path, key); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", path, res.StatusCode, text)
		}
		res, text := r.send(Admin, http.MethodPost, path, key, with...)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s with the token: %d %s", path, res.StatusCode, text)
		}
		if shown := strings.Contains(text, "192.0.2.1"); shown != (path == "/ui/reveal") {
			t.Errorf("%s answers %s", path, text)
		}
	}
	for range 3 {
		if _, text := r.send(API, http.MethodPost, "/v1/check", `{"path":"/login","client_ip":"192.0.2.1"}`); !strings.Contains(text, `"allowed":true`) {
			t.Errorf("of a key that may pass, a request gets %s", text)
		}
	}
	var log []byte
	eventually(t, "the audit log", func() bool {
		log, _ = os.ReadFile(file)
		return bytes.Contains(log, []byte(`"action":"reveal"`)) && bytes.Count(log, []byte(`"result":"done"`)) >= 5
	})
	for _, action := range []string{"ban", "unban", "reset", "reveal", "override"} {
		for _, result := range []string{"begun", "done"} {
			found := false
			for line := range bytes.Lines(log) {
				found = found || bytes.Contains(line, []byte(`"action":"`+action+`"`)) && bytes.Contains(line, []byte(`"result":"`+result+`"`)) && bytes.Contains(line, []byte(l.Bans[0].Digest))
			}
			if !found {
				t.Errorf("the audit log lacks %s %s:\n%s", action, result, log)
			}
		}
	}
	if bytes.Contains(log, []byte("192.0.2.1")) {
		t.Errorf("the audit log has a key:\n%s", log)
	}
}

// Files of the page need no token, and its data do. Web pages of other origins and of foreign names get nothing.
func TestTheDashboardIsForOperators(t *testing.T) {
	t.Parallel()
	without := start(t, parse(t, limited), nil)
	protected := start(t, parse(t, limited), func(o *Options) { o.Token = "the-admin-token-1234" })
	for _, path := range []string{"/ui/", "/ui/main.js", "/v1/live", "/v1/rules", "/v1/history"} {
		want := http.StatusUnauthorized
		if strings.HasPrefix(path, "/ui/") {
			want = http.StatusOK
		}
		if got := protected.status(Admin, path); got != want {
			t.Errorf("%s without the token: %d, want %d", path, got, want)
		}
		c, answers := without.connect(Admin)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: evil.example\r\n\r\n", path)
		if got := readStatus(t, answers); got != http.StatusForbidden {
			t.Errorf("%s for a name that resolves to this machine: %d", path, got)
		}
	}
	for _, path := range []string{"/ui/reveal", "/ui/reset", "/ui/unban", "/v1/explain"} {
		if res, _ := without.send(Admin, http.MethodPost, path, `{}`, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s for a page of another origin: %d", path, res.StatusCode)
		}
	}
}

// The page explains requests by the policy in force.
func TestTheDashboardExplains(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, limited), nil)
	for body, want := range map[string]string{
		`{"path":"/login","client_ip":"192.0.2.1"}`: `"rule":"login","matched":true`,
		`{"path":"/quiet"}`:                         `"because":"the path /quiet is not /login"`,
		`{"rule":"login","key":["x"]}`:              "Only requests can be explained.",
		`{"path":"login"}`:                          "does not begin with a slash",
	} {
		if _, text := r.send(Admin, http.MethodPost, "/v1/explain", body); !strings.Contains(text, want) {
			t.Errorf("%s is explained as %s, want %s", body, text, want)
		}
	}
	if got := r.figure(`sluice_decisions_total{outcome="allowed",rule="login"}`); got != "0" {
		t.Errorf("explaining counted %s requests", got)
	}
}

// A stream does not keep a server from stopping.
func TestAnOpenPageDoesNotDelayTheDrain(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, limited), nil)
	c, answers := r.connect(Admin)
	fmt.Fprintf(c, "GET /v1/live HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	began := time.Now()
	r.end()
	if took := time.Since(began); took > patience/2 || r.err != nil {
		t.Errorf("the server stopped after %v, %v", took, r.err)
	}
}
