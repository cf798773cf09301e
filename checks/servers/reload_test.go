package servers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// follower is a server whose file changes.
type follower struct {
	*server
	dir string
}

func follow(t *testing.T, config string) *follower {
	t.Helper()
	dir := t.TempDir()
	return &follower{serveIn(t, dir, config), dir}
}

// change writes another configuration, and waits until it is in force, or refused.
func (f *follower) change(config, outcome string) {
	f.tb.Helper()
	count := func() string {
		_, text := f.request("admin", http.MethodGet, "/metrics", "")
		return regexp.MustCompile(`sluice_config_reloads_total\{outcome="` + outcome + `"\} \d+`).FindString(text)
	}
	before := count()
	text := "version: 1\n" + freePorts + patient(config)
	file := filepath.Join(f.dir, "sluice.yaml")
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		f.tb.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		f.tb.Fatal(err)
	}
	process.Eventually(f.tb, "the configuration is "+outcome, func() bool { return count() != before })
}

// left requests one unit of a rule, and returns what remains.
func (f *follower) left(rule string) string {
	f.tb.Helper()
	status, text := f.request("api", http.MethodPost, "/v1/check", fmt.Sprintf(`{"rule": %q, "key": ["192.0.2.1"]}`, rule))
	if status != http.StatusOK {
		f.tb.Fatalf("rule %s: the check got %d %s", rule, status, text)
	}
	return regexp.MustCompile(`"remaining": ?(\d+)`).FindStringSubmatch(text)[1]
}

// TestWhatHasBeenUsedSurvivesAReload changes the files of servers, of which two share a Redis
// and read theirs one after the other: unchanged rules go on to the unit, changed numbers take
// over what was used, and a mistake changes nothing.
func TestWhatHasBeenUsedSurvivesAReload(t *testing.T) {
	t.Parallel()
	rules := func(bucket, window int) string {
		return fmt.Sprintf("rules:\n"+
			"  - {name: same, key: client_ip, limit: {algorithm: token_bucket, rate: 100/30d, burst: 50}}\n"+
			"  - {name: bucket, key: client_ip, limit: {algorithm: token_bucket, rate: 100/30d, burst: %d}}\n"+
			"  - {name: window, key: client_ip, limit: {algorithm: sliding_window, rate: %d/30d}}\n"+
			"  - {name: log, key: client_ip, limit: {algorithm: sliding_log, rate: %d/30d}}\n", bucket, window, window)
	}
	test := func(t *testing.T, store string, servers ...*follower) {
		t.Helper()
		ask := func(f *follower, want ...string) {
			t.Helper()
			for i, rule := range []string{"same", "bucket", "window", "log"} {
				if got := f.left(rule); got != want[i] {
					t.Errorf("%s: %s remain, want %s", rule, got, want[i])
				}
			}
		}
		a, b := servers[0], servers[len(servers)-1]
		ask(a, "49", "49", "49", "49")
		ask(b, "48", "48", "48", "48")
		for _, f := range servers {
			f.change(store+rules(40, 60), "applied")
		}
		ask(a, "47", "37", "57", "57")
		for _, f := range servers {
			f.change(strings.Replace(store+rules(99, 10), "sliding_log", "sliding_lock", 1), "refused")
		}
		ask(b, "46", "36", "56", "56")
		for _, f := range servers {
			f.change(store+rules(50, 50), "applied")
		}
		ask(b, "45", "45", "45", "45")
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, "", follow(t, rules(50, 50)))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		store := fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", redistest.Start(t).Addr())
		test(t, store, follow(t, store+rules(50, 50)), follow(t, store+rules(50, 50)))
	})
}
