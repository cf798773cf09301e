package browser

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// TestTopInATerminal runs sluice top in tmux: it follows the size of the terminal and the keyboard, and leaves the terminal as it
// was. It shows what another server of the store limits, with the keys, and that server's silence.
func TestTopInATerminal(t *testing.T) {
	tmux, err := process.Find("tmux", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	r := redistest.Start(t)
	s, busy := overRedis(t, r), overRedis(t, r)
	traffic(t, busy)
	socket := filepath.Join(t.TempDir(), "tmux")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(tmux, append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput() //nolint:noctx // it answers at once
		if err != nil {
			t.Fatalf("tmux %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	run("new-session", "-d", "-x", "80", "-y", "24", "sh")
	t.Cleanup(func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() }) //nolint:noctx // it answers at once
	shows := func(what string, ok func(lines []string) bool) {
		t.Helper()
		screen := ""
		for began := time.Now(); time.Since(began) < process.Patience; <-time.After(50 * time.Millisecond) {
			screen = run("capture-pane", "-p")
			if ok(strings.Split(strings.TrimSuffix(screen, "\n"), "\n")) {
				return
			}
		}
		t.Fatalf("%s: not within %v; the screen is\n%s", what, process.Patience, screen)
	}
	has := func(texts ...string) func([]string) bool {
		return func(lines []string) bool {
			all := strings.Join(lines, "\n")
			for _, text := range texts {
				if !strings.Contains(all, text) {
					return false
				}
			}
			return true
		}
	}
	run("send-keys", "echo before; "+process.Program()+" top --server "+s.URLs["admin"], "Enter")
	shows("the limited clients", has("login", "RULE", "KEY", "q quit"))
	for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 12}, {80, 24}} {
		run("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
		shows(fmt.Sprintf("the size %v is filled, and not exceeded", size), func(lines []string) bool {
			return len(lines) == size[1] && strings.HasPrefix(lines[0], "sluice top") && strings.HasPrefix(lines[size[1]-1], "q quit")
		})
	}
	run("send-keys", "/", "p", "e", "r", "Enter")
	shows("the filter", func(lines []string) bool { return has("per-user  ")(lines) && !has("export  ")(lines) })
	run("send-keys", "Escape")
	shows("all rules again", has("export  "))
	run("send-keys", "k")
	shows("keys", has("203.0.113.7", `"<script>`))
	run("resize-window", "-x", "200", "-y", "50")
	shows("what the candidates would do", has("WOULD", "FREES", "CANDIDATE", "newly", "freed"))
	if err := busy.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	shows("the silent server", has("no answer for", "203.0.113.7"))
	if err := busy.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	run("send-keys", "k")
	shows("fingerprints again", func(lines []string) bool { return !has("203.0.113.7")(lines) })
	run("send-keys", "q")
	shows("the terminal as it was", func(lines []string) bool { return has("before")(lines) && !has("q quit")(lines) })
}
