package servers

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// live is the part of /v1/live that these tests read.
type live struct {
	Servers []struct{ Name, Admin, State string }
	Unknown string `json:"servers_unknown"`
	Counted string
	Figures []string
	Rules   []liveRule
	Sampled int
	Heavy   []struct{ Requests, Within uint64 }
	Keys    []struct {
		Rule, Digest   string
		Denials, Error uint64
	}
}

type liveRule struct {
	Rule            string
	Totals          []uint64
	Units           uint64
	Compared, Freed int
}

// of returns a figure of a rule.
func (l *live) of(rule, figure string) (n uint64) {
	for _, r := range l.Rules {
		if r.Rule == rule {
			n = r.Totals[slices.Index(l.Figures, figure)]
		}
	}
	return n
}

// live returns what a server does now.
func (s *server) live(query string) (l live) {
	s.tb.Helper()
	status, text := s.request("admin", http.MethodGet, "/v1/live"+query, "")
	if err := json.Unmarshal([]byte(text), &l); err != nil || status != http.StatusOK {
		s.tb.Fatalf("/v1/live answers %d %s", status, text)
	}
	return l
}

// states returns the states of servers as one of them lists them, itself first.
func (l *live) states() string {
	words := make([]string, len(l.Servers))
	for i, s := range l.Servers {
		words[i] = s.State
	}
	slices.Sort(words[min(1, len(words)):])
	return strings.Join(words, " ")
}

// untilLive waits until a server lists servers of some states, and returns how long that took.
func (s *server) untilLive(what, want string) time.Duration {
	s.tb.Helper()
	return process.Eventually(s.tb, what+": "+want, func() bool {
		l := s.live("")
		return l.states() == want
	})
}

// TestHangingServersAreShownWithinThreeSeconds stops one of two servers of a Redis.
func TestHangingServersAreShownWithinThreeSeconds(t *testing.T) {
	t.Parallel()
	policy := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\nrules: []\n", redistest.Start(t).Addr())
	s, hangs := serve(t, policy), serve(t, policy)
	s.untilLive("both servers", "this answers")
	if err := hangs.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if took := s.untilLive("a server that hangs", "this silent"); took > 3*time.Second {
		t.Errorf("a server that hangs was shown after %v, want 3 s at most", took)
	}
}

// TestServersOfARedisFindEachOther: each server lists the other ones while somebody looks. A server that hangs is shown as
// silent; one that stops is gone; one that begins is there. While Redis is stopped, the list is marked as old.
func TestServersOfARedisFindEachOther(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	policy := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", r.Addr()) + `
rules:
  - {name: per-client, key: client_ip, limit: {algorithm: token_bucket, rate: 7/d}}
`
	servers := []*server{serve(t, policy), serve(t, policy), serve(t, policy)}
	until := func(what, want string) {
		t.Helper()
		servers[0].untilLive(what, want)
	}
	until("all servers", "this answers answers")
	l := servers[0].live("")
	for i, s := range servers {
		if !slices.ContainsFunc(l.Servers, func(x struct{ Name, Admin, State string }) bool { return x.Admin == s.URLs["admin"] && x.Name != "" }) {
			t.Errorf("server %d is not listed: %+v", i, l)
		}
	}
	if err := servers[1].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until("a server that hangs", "this answers silent")
	if err := servers[1].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until("a server that goes on", "this answers answers")
	servers[1].Kill()
	until("a server that was killed", "this answers silent")
	if err := servers[2].Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until("a server that stopped", "this silent")
	servers[2] = serve(t, policy)
	until("a server that began", "this answers silent")
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "the lost Redis", func() bool { l := servers[0].live(""); return l.Unknown != "" && l.states() == "this answers silent" })
}

// TestServersAddUp: the numbers of all servers are the sums of their metrics, and a key that several servers denied is listed once. A key
// that only another server denied can be shown, reset and unbanned. With hash_keys, Redis never has a key.
func TestServersAddUp(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	policy := fmt.Sprintf("store: {redis: {addresses: ['%s']%%s}}\n", r.Addr()) + `
rules:
  - {name: a, match: {path: /a}, key: client_ip, limit: {algorithm: token_bucket, rate: 3/d}}
  - {name: b, match: {path: /b}, key: client_ip, limit: {algorithm: token_bucket, rate: 1/d}}
  - {name: c, match: {path: /c}, key: client_ip, cost: 3, limit: {algorithm: token_bucket, rate: 1000000/d}}
`
	plain := fmt.Sprintf(policy, "")
	servers := []*server{serve(t, plain), serve(t, plain), serve(t, plain)}
	for i, s := range servers {
		for range 5 * (i + 1) {
			s.mustCheck("/a", "192.0.2.1")
		}
	}
	for range 4 {
		servers[2].mustCheck("/b", "192.0.2.99")
	}
	var l live
	process.Eventually(t, "the numbers of all servers", func() bool {
		l = servers[0].live("?servers=all")
		return l.states() == "this answers answers" && l.of("a", "allowed")+l.of("a", "denied") == 30 && l.of("b", "denied") == 3
	})
	for _, rule := range []string{"a", "b"} {
		for _, outcome := range []string{"allowed", "denied"} {
			want := 0.0
			for _, s := range servers {
				want += s.number(fmt.Sprintf("sluice_decisions_total{outcome=%q,rule=%q}", outcome, rule))
			}
			if got := l.of(rule, outcome); float64(got) != want {
				t.Errorf("rule %s has %d requests %s on all servers, and the metrics have %v", rule, got, outcome, want)
			}
		}
	}
	if one := servers[0].live(""); one.of("a", "allowed")+one.of("a", "denied") != 5 || one.Counted != "" {
		t.Errorf("without other servers, the numbers are %+v", one)
	}
	if len(l.Keys) != 2 || l.Keys[0].Rule != "a" || l.Keys[0].Denials != 27 || l.Keys[0].Error != 0 || l.Keys[1].Rule != "b" || l.Keys[1].Denials != 3 {
		t.Errorf("the keys are %+v, want one of each rule", l.Keys)
	}
	process.Eventually(t, "the history of all servers with 3 denials", func() bool {
		_, text := servers[0].request("admin", http.MethodGet, "/v1/history?rule=b&servers=all", "")
		var h struct{ Figures map[string][]int }
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range h.Figures["denied"] {
			sum += n
		}
		return sum == 3
	})
	// A heavy key is estimated from the samples of all servers, and demand is in units too.
	batch := `{"requests":[` + strings.TrimSuffix(strings.Repeat(`{"method":"GET","path":"/c","client_ip":"192.0.2.50"},`, 1000), ",") + `]}`
	for range 4 {
		for _, s := range servers {
			if status, text := s.request("api", http.MethodPost, "/v1/check", batch); status != http.StatusOK {
				t.Fatalf("a batch is answered %d %.200s", status, text)
			}
		}
	}
	process.Eventually(t, "the heavy key", func() bool {
		l = servers[0].live("?servers=all&rule=c")
		units := uint64(0)
		for _, r := range l.Rules {
			if r.Rule == "c" {
				units = r.Units
			}
		}
		return l.Sampled == 256 && units == 36_000 && len(l.Heavy) == 1 && l.Heavy[0].Requests > 2_000 && l.Heavy[0].Requests < 30_000
	})
	process.Eventually(t, "the keys of all servers", func() bool {
		l = servers[0].live("?servers=all")
		return len(l.Keys) == 2
	})
	key := fmt.Sprintf(`{"rule":"b","digest":%q}`, l.Keys[1].Digest)
	if status, text := servers[0].request("admin", http.MethodPost, "/ui/reveal", key); status != http.StatusOK || !strings.Contains(text, "192.0.2.99") {
		t.Errorf("a key of another server is revealed as %d %s", status, text)
	}
	if status, text := servers[0].request("admin", http.MethodPost, "/ui/reset", key); status != http.StatusOK || strings.Contains(text, "192.0.2.99") {
		t.Errorf("a key of another server is reset with %d %s", status, text)
	}
	if got := servers[1].mustCheck("/b", "192.0.2.99"); !got.Allowed {
		t.Errorf("after the reset, the client gets %+v", got)
	}

	// With hash_keys.
	const secret = "0123456789abcdef0123456789abcdef"
	hashed := fmt.Sprintf(policy, ", prefix: hashed, hash_keys: {secret_env: KEY_SECRET}")
	servers = []*server{serve(t, hashed, "KEY_SECRET="+secret), serve(t, hashed, "KEY_SECRET="+secret)}
	for _, s := range servers {
		for range 3 {
			s.mustCheck("/b", "192.0.2.98")
		}
	}
	servers[1].mustCheck("/b", "192.0.2.97")
	servers[1].mustCheck("/b", "192.0.2.97")
	process.Eventually(t, "the keys of both servers", func() bool {
		l = servers[0].live("?servers=all")
		return len(l.Keys) == 2 && l.Keys[0].Denials == 5
	})
	key = fmt.Sprintf(`{"rule":"b","digest":%q}`, l.Keys[1].Digest)
	if status, text := servers[0].request("admin", http.MethodPost, "/ui/reveal", key); status != http.StatusNotFound || strings.Contains(text, "192.0.2") || !strings.Contains(text, "another server") {
		t.Errorf("a hashed key of another server is revealed as %d %s", status, text)
	}
	stored, err := r.Do(t.Context(), "KEYS", "hashed*")
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, name := range stored.([]any) { //nolint:forcetypeassert // KEYS replies a list
		text, err := r.Text(t.Context(), "GET", fmt.Sprint(name))
		if err != nil {
			continue // it is not a text
		}
		if _, packed, ok := strings.Cut(text, "\x1f\x8b"); ok {
			z, err := gzip.NewReader(strings.NewReader("\x1f\x8b" + packed))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			answers++
			text += string(plain)
		}
		if strings.Contains(text+fmt.Sprint(name), "192.0.2") {
			t.Errorf("Redis has a key of a client at %s: %q", name, text)
		}
	}
	if answers == 0 {
		t.Error("Redis has no answers, want answers without keys")
	}
}
