package servers

import (
	"encoding/json"
	"fmt"
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

// TestServersOfARedisFindEachOther: each server lists the other ones while somebody looks. A server that hangs is shown as silent within
// three seconds; one that stops is gone; one that begins is there. While Redis is stopped, the list is marked as old.
func TestServersOfARedisFindEachOther(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	policy := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", r.Addr()) + `
rules:
  - {name: per-client, key: client_ip, limit: {algorithm: token_bucket, rate: 7/d}}
`
	servers := []*server{serve(t, policy), serve(t, policy), serve(t, policy)}
	until := func(what, want string) time.Duration {
		t.Helper()
		return process.Eventually(t, what+": "+want, func() bool {
			l := servers[0].live("")
			return l.states() == want
		})
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
	if took := until("a server that hangs", "this answers silent"); took > 3*time.Second {
		t.Errorf("a server that hangs was shown after %v", took)
	}
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
