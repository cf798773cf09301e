package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// listedKey is a key of the answer of /v1/keys, and listedKeys the answer.
type listedKey struct {
	Rule, Role string
	Plan       string
	Key        []string
	Digest     string
	Denials    uint64
	Candidate  *struct {
		Compared  uint64
		WouldDeny uint64 `json:"would_deny"`
	}
	Now *struct {
		Allowed             bool
		Capacity, Remaining int64
		From                string
	}
}

type listedKeys struct {
	Keys    []listedKey
	More    bool
	Servers int
	Missing []string
}

// keys lists the keys that were denied.
func (s *server) keys(query string) (l listedKeys, text string) {
	s.tb.Helper()
	status, text := s.request("admin", http.MethodGet, "/v1/keys"+query, "")
	if err := json.Unmarshal([]byte(text), &l); err != nil || status != http.StatusOK {
		s.tb.Fatalf("/v1/keys answers %d %s", status, text)
	}
	return l, text
}

// values returns the values of the listed keys.
func (l *listedKeys) values() string {
	var all []string
	for _, k := range l.Keys {
		all = append(all, fmt.Sprintf("%s%v×%d", k.Rule, k.Key, k.Denials))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestKeysOfAllServers: each server lists the limited keys of all servers of the store, with their numbers and what is left. A server that
// does not answer is named. The audit log has a record for each operator that saw values.
func TestKeysOfAllServers(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	log := filepath.Join(t.TempDir(), "audit.log")
	policy := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\naudit: {file: %s}\n", r.Addr(), log) + `
plans:
  gold: {tenants: {rate: 3/d}}
plan_from: "claim:plan"
trusted_proxies: 127.0.0.1
rules:
  - {name: tenants, match: {path: /t}, key: client_ip, limit: {algorithm: token_bucket, rate: 1/d}}
  - {name: users, match: {path: /u}, key: client_ip, limit: {algorithm: fixed_window, rate: 2/d}, candidate: {algorithm: fixed_window, rate: 4/d}}
  - {name: files, match: {path: /f}, key: client_ip, limit: {algorithm: fixed_window, rate: 9/d}, candidate: {algorithm: fixed_window, rate: 2/d}}
`
	first, second, third := serve(t, policy), serve(t, policy), serve(t, policy)
	for range 3 {
		first.mustCheck("/u", "192.0.2.1")
	}
	for range 4 {
		second.mustCheck("/u", "192.0.2.1")
		third.mustCheck("/u", "192.0.2.2")
	}
	var l listedKeys
	process.Eventually(t, "the keys of three servers", func() bool {
		l, _ = first.keys("?rule=users")
		return l.Servers == 2 && l.values() == "users[192.0.2.1]×5 users[192.0.2.2]×2"
	})
	for _, k := range l.Keys {
		if k.Now == nil || k.Now.Allowed || k.Now.Capacity != 2 || k.Now.Remaining != 0 || k.Now.From != "" {
			t.Errorf("now, key %v has %+v, want 0 of 2 of the rule", k.Key, k.Now)
		}
		want := map[string][2]uint64{"192.0.2.1": {5, 3}, "192.0.2.2": {2, 0}}[k.Key[0]]
		if c := k.Candidate; c == nil || c.Compared != want[0] || c.WouldDeny != want[1] {
			t.Errorf("for key %v, the candidate has %+v, want %v", k.Key, k.Candidate, want)
		}
	}
	process.Eventually(t, "the key of all servers that the candidate frees", func() bool {
		l := first.live("?servers=all&rule=users")
		i := slices.IndexFunc(l.Rules, func(r liveRule) bool { return r.Rule == "users" })
		return i >= 0 && l.Rules[i].Compared == 2 && l.Rules[i].Freed == 1
	})
	// What only a candidate denies is counted by all servers too.
	for range 3 {
		second.mustCheck("/f", "192.0.2.9")
		third.mustCheck("/f", "192.0.2.9")
	}
	process.Eventually(t, "the key that a candidate would newly limit", func() bool {
		l, _ = first.keys("?rule=files")
		live := first.live("?servers=all&rule=files")
		return l.values() == "files[192.0.2.9]×4" && len(live.Keys) == 1 && live.Keys[0].Denials == 4
	})
	if k := l.Keys[0]; k.Role != "candidate" || k.Candidate != nil || k.Now == nil || !k.Now.Allowed || k.Now.Remaining != 3 {
		t.Errorf("the key that a candidate would newly limit is %+v, with %+v now; want 3 units left", k, k.Now)
	}
	if l, text := first.keys("?rule=files&limited=true"); len(l.Keys) > 0 {
		t.Errorf("a key that only a candidate denies is listed as limited: %s", text)
	}
	// A key that its plan limits has the numbers of the plan.
	for range 4 {
		if status, text := second.request("api", http.MethodPost, "/v1/check", `{"path": "/t", "client_ip": "192.0.2.3", "claims": {"plan": "gold"}}`); status != http.StatusOK {
			t.Fatalf("a request of a plan is answered %d %s", status, text)
		}
	}
	process.Eventually(t, "the key of a plan", func() bool {
		l, _ = first.keys("?limited=true")
		i := slices.IndexFunc(l.Keys, func(k listedKey) bool { return k.Rule == "tenants" && k.Key[0] == "192.0.2.3" })
		return i >= 0 && l.Keys[i].Plan == "gold" && l.Keys[i].Now.Capacity == 3 && l.Keys[i].Now.From == "plan"
	})
	// An override names a plan: its numbers count while it is there, and then the rule's.
	change := func(method, body string) {
		t.Helper()
		if status, text := second.request("admin", method, "/v1/overrides", body); status != http.StatusOK {
			t.Fatalf("an override is answered %d %s", status, text)
		}
	}
	const planned = `{"rule": "tenants", "key": ["192.0.2.4"]`
	change(http.MethodPut, planned+`, "plan": "gold"}`)
	for range 4 {
		second.mustCheck("/t", "192.0.2.4")
	}
	for _, want := range []string{"3 call", "1 "} {
		process.Eventually(t, "the numbers of a key with an override, and without it: "+want, func() bool {
			l, _ = first.keys("?limited=true")
			i := slices.IndexFunc(l.Keys, func(k listedKey) bool { return k.Rule == "tenants" && k.Key[0] == "192.0.2.4" })
			return i >= 0 && l.Keys[i].Plan == "" && fmt.Sprint(l.Keys[i].Now.Capacity, " ", l.Keys[i].Now.From) == want
		})
		if want != "1 " {
			change(http.MethodDelete, planned+"}")
		}
	}
	// An override by one server lets a key pass, so it is not limited any more; another key is still limited by its own numbers.
	for _, body := range []string{`{"rule": "users", "key": ["192.0.2.1"], "limit": {"rate": "9/d"}}`, `{"rule": "users", "key": ["192.0.2.2"], "limit": {"rate": "1/d"}}`} {
		change(http.MethodPut, body)
	}
	process.Eventually(t, "the limited keys under overrides", func() bool {
		l, _ = first.keys("?limited=true&rule=users")
		return l.values() == "users[192.0.2.2]×2" && l.Keys[0].Now.From == "call" && l.Keys[0].Now.Capacity == 1
	})
	if l, text := first.keys("?most=1&rule=users"); len(l.Keys) != 1 || !l.More {
		t.Errorf("with most=1, the list is %s", text)
	}
	if err := third.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "a server without an answer", func() bool {
		l, _ = first.keys("?rule=users")
		return len(l.Missing) == 1 && l.Missing[0] != ""
	})
	if err := third.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	records, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(records), `"action":"reveal"`) || !strings.Contains(string(records), `"rules":["users"]`) {
		t.Errorf("the audit log has no record of the keys that were shown: %v\n%s", err, records)
	}
}

// TestKeysOfServersWithASecret: with hash_keys, a server lists the keys of others as digests, with what is left for them, and Redis has no
// values.
func TestKeysOfServersWithASecret(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	policy := fmt.Sprintf("store: {redis: {addresses: ['%s'], hash_keys: {secret_env: KEY_SECRET}}}\n", r.Addr()) + `
rules:
  - {name: users, match: {path: /u}, key: client_ip, limit: {algorithm: fixed_window, rate: 2/d}}
`
	const secret = "KEY_SECRET=0123456789abcdef0123456789abcdef"
	first, second := serve(t, policy, secret), serve(t, policy, secret)
	for range 3 {
		first.mustCheck("/u", "192.0.2.1")
		second.mustCheck("/u", "192.0.2.2")
	}
	var l listedKeys
	process.Eventually(t, "the keys of both servers", func() bool {
		l, _ = first.keys("?limited=true")
		return l.Servers == 1 && l.values() == "users[192.0.2.1]×1 users[]×1"
	})
	for _, k := range l.Keys {
		if k.Digest == "" || k.Now == nil || k.Now.Allowed || k.Now.Remaining != 0 {
			t.Errorf("key %v with digest %s has %+v now, want nothing left", k.Key, k.Digest, k.Now)
		}
	}
}
