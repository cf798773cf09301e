package servers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// checked is the part of a replay's document that compares verdicts.
type checked struct {
	Check struct {
		Compared    int `json:"compared"`
		Agreed      int `json:"agreed"`
		Within      int `json:"within"`
		NotCompared int `json:"not_compared"`
		Examples    []struct {
			Line                 int
			Logged, Replay, Rule string
		} `json:"examples"`
	} `json:"check"`
	Requests struct {
		Denied int `json:"denied"`
	} `json:"requests"`
	Unevaluated []struct{ Name, Lacks string } `json:"unevaluated"`
}

// TestReplaysAgreeWithServers puts each example under load from several clients at once. A replay of the server's own log
// has the verdicts of the server. Rules that read what the log lacks are not compared.
func TestReplaysAgreeWithServers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	var mu sync.Mutex
	compared, denied := map[string]int{}, 0
	t.Run("examples", func(t *testing.T) {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".yaml")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, text := replayOf(t, file)
				for _, d := range c.Check.Examples {
					t.Errorf("line %d: the server decided %s by %q, and the replay %s: %s", d.Line, d.Logged, d.Rule, d.Replay, strings.Split(text, "\n")[d.Line-1])
				}
				if c.Check.Agreed != c.Check.Compared {
					t.Errorf("%d of %d verdicts agree", c.Check.Agreed, c.Check.Compared)
				}
				mu.Lock()
				defer mu.Unlock()
				compared[name] = c.Check.Compared
				denied += c.Requests.Denied
				t.Logf("%d verdicts agree, %d of them within the resolution; %d are not compared; not evaluated are %v", c.Check.Agreed, c.Check.Within, c.Check.NotCompared, c.Unevaluated)
			})
		}
	})
	for _, name := range []string{"reject", "ban", "several-limits", "degrade", "mark", "concurrency"} {
		if compared[name] < 100 {
			t.Errorf("of %s, %d verdicts are compared, which is too few to learn from", name, compared[name])
		}
	}
	if denied < 200 {
		t.Errorf("%d requests are denied, which is too few to learn from", denied)
	}
}

// load is how long an example is under load.
const load = 3 * time.Second

// replayOf serves an example under load, and replays its log.
func replayOf(t *testing.T, file string) (c checked, log string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "access.log")
	steps := scenario(t, file, string(text))
	e := start(t, string(text), "store: memory\naccess_log: {file: "+name+"}\n")
	var clients sync.WaitGroup
	began := time.Now()
	each := redistest.Times(t, 100)
	for worker := range 4 {
		clients.Go(func() {
			for i := 0; i < each && time.Since(began) < load; i++ {
				s := steps[(i*7+worker)%len(steps)]
				if s.method == "" {
					continue
				}
				s.orders.Takes = min(s.orders.Takes, 20e6)
				_, _ = e.request(&s) // whatever the answer is
			}
		})
	}
	clients.Wait()
	config := e.server.config
	if code := e.server.drain(); code != 0 {
		t.Fatalf("the server ends with %d", code)
	}
	out, err := exec.CommandContext(t.Context(), process.Program(), "replay", name, "-c", config, "--format", "sluice", "--check", "--json", "-").Output()
	if err != nil && !strings.HasPrefix(string(out), "{") {
		t.Fatalf("the replay fails: %v", err)
	}
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return c, string(content)
}
