package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/program"
	"github.com/sluicehq/sluice/checks/redistest"
)

// earlier is a commit whose sluice must work together with the sluice of this commit. Set SLUICE_EARLIER to try another.
const earlier = "3e32ee2"

// versionUnits is the capacity of each limit of versionRules that /v1/reserve charges.
const versionUnits = 200

// versionLeases is the capacity of the limit of /held.
const versionLeases = 24

// versionRules are limits of every algorithm. They regain nothing during a test.
const versionRules = `
on_store_error: deny
rules:
  - {name: bucket, match: {path: /bucket}, key: client_ip, limit: {algorithm: token_bucket, rate: 1/30d, burst: 200}}
  - {name: debt, match: {path: /debt}, key: client_ip, limit: {algorithm: token_bucket, rate: 1/30d, burst: 200, debt: 50}}
  - {name: leaky, match: {path: /leaky}, key: client_ip, limit: {algorithm: leaky_bucket, rate: 1/30d, queue: 199, undelayed: 199}}
  - {name: fixed, match: {path: /fixed}, key: client_ip, limit: {algorithm: fixed_window, rate: 200/3650d}}
  - {name: opened, match: {path: /opened}, key: client_ip, limit: {algorithm: fixed_window, rate: 200/30d, starts: first_request}}
  - {name: cells, match: {path: /cells}, key: client_ip, limit: {algorithm: sliding_window, rate: 200/30d}}
  - {name: counter, match: {path: /counter}, key: client_ip, limit: {algorithm: sliding_counter, rate: 200/3650d}}
  - {name: log, match: {path: /log}, key: client_ip, limit: {algorithm: sliding_log, rate: 200/30d}}
  - {name: held, match: {path: /held}, key: client_ip, limit: {algorithm: concurrency, max: 24, ttl: 24h}}
  - {name: banned, match: {path: /banned}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/3650d}, ban: {after: 1, for: 24h}}
`

// versionPaths are the paths of the rules whose units are used up.
var versionPaths = []string{"/bucket", "/debt", "/leaky", "/fixed", "/opened", "/cells", "/counter", "/log"}

// A versionLedger has what the servers of two programs have admitted.
type versionLedger struct {
	*testing.T
	used    map[string]int64 // units, by path
	clients int              // that were banned
	stage   string
}

// earlierProgram builds sluice of the earlier commit.
func earlierProgram(t *testing.T) string {
	t.Helper()
	commit := earlier
	if other := os.Getenv("SLUICE_EARLIER"); other != "" {
		commit = other
	}
	path := filepath.Join(t.TempDir(), "earlier")
	if err := program.BuildEarlier(path, commit, "server/cmd/sluice"); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVersionsShareRedis replaces two servers of an earlier commit by servers of this commit, one after another, and then
// goes back. All share limits in one Redis. Every answer has what the answers before have left, whichever program gave them.
func TestVersionsShareRedis(t *testing.T) {
	t.Parallel()
	old, config := earlierProgram(t), fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", redistest.Start(t).Addr())+versionRules
	l := &versionLedger{T: t, used: map[string]int64{}}
	start := func(program string) *server { return serveProgram(t, program, t.TempDir(), config) }
	fleet := []*server{start(old), start(old)}
	l.use("before the upgrade", fleet...)
	for _, step := range []struct {
		stage   string
		program string
		server  int
	}{
		{"in the upgrade", process.Program(), 0},
		{"after the upgrade", process.Program(), 1},
		{"in the rollback", old, 1},
		{"after the rollback", old, 0},
		{"at the end", process.Program(), 0},
	} {
		next := start(step.program)
		l.stop(fleet[step.server])
		fleet[step.server] = next
		l.use(step.stage, fleet...)
	}
	l.useUp(fleet...)
}

// TestVersionsShareAFile stops a server of an earlier commit and starts a server of this commit on its file of states, and
// goes back and on again. Every answer has what the answers before have left.
func TestVersionsShareAFile(t *testing.T) {
	t.Parallel()
	old, dir := earlierProgram(t), t.TempDir()
	config := fmt.Sprintf("store: {memory: {file: '%s'}}\n", filepath.Join(dir, "states")) + versionRules
	l := &versionLedger{T: t, used: map[string]int64{}}
	for _, step := range []struct{ stage, program string }{
		{"before the upgrade", old},
		{"after the upgrade", process.Program()},
		{"after the rollback", old},
		{"after the second upgrade", process.Program()},
	} {
		s := serveProgram(t, step.program, dir, config)
		if strings.Contains(s.Log(), "refused") {
			l.Fatalf("%s, the file of states is refused:\n%s", step.stage, s.Log())
		}
		l.use(step.stage, s)
		if step.stage == "after the second upgrade" {
			l.useUp(s)
		}
		l.stop(s)
	}
}

// stop lets a server end as in an upgrade.
func (l *versionLedger) stop(s *server) {
	l.Helper()
	if code := s.drain(); code != 0 {
		l.Fatalf("%s, a server ends with %d", l.stage, code)
	}
}

// use takes units of each limit through all servers in turn, gives some back, holds leases, and looks at the bans.
func (l *versionLedger) use(stage string, fleet ...*server) {
	l.Helper()
	l.stage = stage
	for _, path := range versionPaths {
		for i := range 6 {
			l.take(fleet[i%len(fleet)], path)
		}
		for i, s := range fleet {
			other := fleet[(i+1)%len(fleet)]
			l.reserve(s, other, path, "/v1/settle", `{"token": %q, "cost": 3}`, 3)
			l.reserve(s, other, path, "/v1/cancel", `{"token": %q}`, 0)
		}
	}
	for i, s := range fleet {
		other := fleet[(i+1)%len(fleet)]
		token := l.open(s, "/v1/acquire", "/held", 1)
		l.open(other, "/v1/acquire", "/held", 1) // nobody releases it
		l.end(s, "/v1/release", fmt.Sprintf(`{"token": %q}`, token))
		l.used["/held"]--
		l.peek(other, "/held")
	}
	l.ban(fleet)
}

// rest returns how many units of a limit nobody has used.
func (l *versionLedger) rest(path string) int64 {
	if path == "/held" {
		return versionLeases - l.used[path]
	}
	return versionUnits - l.used[path]
}

// want fails the test unless a server admits a request and says what remains.
func (l *versionLedger) want(s *server, path string, a answer) {
	l.Helper()
	if !a.Allowed || a.Degraded || a.Remaining == nil || *a.Remaining != l.rest(path) {
		l.Fatalf("%s, %d units of %s are used: %s answers %s, want %d to remain", l.stage, l.used[path], path, s.Address("api"), a.text(), l.rest(path))
	}
}

// take takes one unit.
func (l *versionLedger) take(s *server, path string) {
	l.Helper()
	l.used[path]++
	l.want(s, path, s.mustCheck(path, "192.0.2.1"))
}

// peek looks at what remains.
func (l *versionLedger) peek(s *server, path string) {
	l.Helper()
	l.want(s, path, l.call(s, "/v1/peek", path, 1).answer)
}

// opened is an answer with a token.
type opened struct {
	answer
	Token string
}

// call sends a request about a path.
func (l *versionLedger) call(s *server, name, path string, cost int64) (o opened) {
	l.Helper()
	body := fmt.Sprintf(`{"method": "GET", "path": %q, "client_ip": "192.0.2.1", "cost": %d}`, path, cost)
	status, text := s.request("api", http.MethodPost, name, body)
	if err := json.Unmarshal([]byte(text), &o); err != nil || status != http.StatusOK {
		l.Fatalf("%s, %s of %s answers %d %s", l.stage, name, path, status, text)
	}
	return o
}

// open charges units or a lease, and returns the token.
func (l *versionLedger) open(s *server, call, path string, cost int64) string {
	l.Helper()
	l.used[path] += cost
	o := l.call(s, call, path, cost)
	l.want(s, path, o.answer)
	return o.Token
}

// end ends the charge or lease of a token.
func (l *versionLedger) end(s *server, call, body string) {
	l.Helper()
	if status, text := s.request("api", http.MethodPost, call, body); status != http.StatusOK || !strings.Contains(text, `"ended":true`) {
		l.Fatalf("%s, %s answers %d %s", l.stage, call, status, text)
	}
}

// reserve takes five units at a server and ends that with fewer. The other server sees both.
func (l *versionLedger) reserve(s, other *server, path, call, body string, kept int64) {
	l.Helper()
	token := l.open(s, "/v1/reserve", path, 5)
	l.peek(other, path)
	l.end(s, call, fmt.Sprintf(body, token))
	l.used[path] += kept - 5
	l.peek(other, path)
}

// ban lets each server ban a client, and wants all servers to deny all clients that were banned before.
func (l *versionLedger) ban(fleet []*server) {
	l.Helper()
	for _, s := range fleet {
		l.clients++
		for range 2 {
			s.mustCheck("/banned", fmt.Sprint("198.51.100.", l.clients))
		}
	}
	for c := range l.clients {
		for _, s := range fleet {
			if a := s.mustCheck("/banned", fmt.Sprint("198.51.100.", c+1)); a.Allowed || a.Reason != "banned" {
				l.Fatalf("%s, client %d was banned: %s answers %s, want a ban", l.stage, c+1, s.Address("api"), a.text())
			}
		}
	}
}

// useUp takes what remains of each limit, and wants every server to deny the next request.
func (l *versionLedger) useUp(fleet ...*server) {
	l.Helper()
	for i, path := range append(versionPaths, "/held") {
		for l.rest(path) > 0 {
			if path == "/held" {
				l.open(fleet[i%len(fleet)], "/v1/acquire", path, 1)
			} else {
				l.take(fleet[i%len(fleet)], path)
			}
			i++
		}
		for _, s := range fleet {
			if a := s.mustCheck(path, "192.0.2.1"); a.Allowed || a.Degraded {
				l.Errorf("%s, all units of %s are used: %s answers %s, want a denial", l.stage, path, s.Address("api"), a.text())
			}
		}
	}
}

// text returns an answer for a message.
func (a answer) text() string {
	remaining := "nothing about the rest"
	if a.Remaining != nil {
		remaining = fmt.Sprint(*a.Remaining, " remaining")
	}
	return fmt.Sprintf("allowed %t, degraded %t, reason %q, %s", a.Allowed, a.Degraded, a.Reason, remaining)
}
