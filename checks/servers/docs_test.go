package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// block is a fenced block of a page.
type block struct{ language, text string }

// blocks returns the fenced blocks of a page in docs, or of one section.
func blocks(t *testing.T, page, section string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	if section != "" {
		var ok bool
		if _, rest, ok = strings.Cut(rest, "\n## "+section+"\n"); !ok {
			t.Fatalf("docs/%s has no section %q", page, section)
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
	}
	return fenced(rest)
}

// fenced returns the fenced blocks of a text.
func fenced(text string) (all []block) {
	for _, m := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// TestQuickStart runs the commands of docs/redis.md, each with the output after it.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	if ran := runCommands(t, blocks(t, "redis.md", "Two servers, one limit")); ran < 9 {
		t.Errorf("the page has %d commands", ran)
	}
}

var (
	configFile = regexp.MustCompile(`sluice serve ([a-z][\w.]*)`)
	adminFlag  = regexp.MustCompile(`--listen-admin (\S+)`)
)

// runCommands writes the configuration of a section to its file, and runs its commands on free
// ports. Each must print the text after it. It returns the number of commands.
func runCommands(t *testing.T, steps []block) int {
	t.Helper()
	dir := t.TempDir()
	config := ""
	for _, step := range steps {
		if m := configFile.FindStringSubmatch(step.text); m != nil && config == "" {
			config = filepath.Join(dir, m[1])
		}
	}
	freed := otherPorts(t, "6379", "8080", "8081", "9090", "8180", "8181", "9190")
	sh := shell{dir, freed("http://127.0.0.1:9090")}
	ran := 0
	for i, step := range steps {
		text := freed(step.text)
		switch step.language {
		case "yaml":
			// The machine may be busy, and the first server has no flags for its listeners.
			text = patient(text)
			text += freed("listen: {proxy: '127.0.0.1:8080', api: '127.0.0.1:8081', admin: '127.0.0.1:9090'}\n")
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			command := strings.TrimSpace(text)
			ran++
			if strings.HasPrefix(command, "redis-server") || strings.HasPrefix(command, "sluice serve") {
				sh.background(t, command)
				wait := "redis-cli -p " + freed("6379") + " ping | grep PONG"
				if port := adminFlag.FindStringSubmatch(command); port != nil {
					wait = "curl -sf http://" + port[1] + "/readyz"
				} else if strings.HasPrefix(command, "sluice") {
					wait = freed("curl -sf http://127.0.0.1:9090/readyz")
				}
				process.Eventually(t, command, func() bool { _, err := sh.output(wait); return err == nil })
				continue
			}
			want := ""
			if i+1 < len(steps) && steps[i+1].language == "text" {
				want = undated(steps[i+1].text)
			}
			got, err := sh.output(command)
			// A server may take a second to notice a change of the store's state.
			if strings.Contains(command, "readyz") && undated(got) != want {
				process.Eventually(t, command+" printing "+want, func() bool {
					got, err = sh.output(command)
					return undated(got) == want
				})
			}
			if err != nil || undated(got) != want {
				t.Fatalf("%s\nprints:\n%s\nwant:\n%s\n%v", command, got, want, err)
			}
		}
	}
	return ran
}

var (
	dates     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	durations = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)
	spaces    = regexp.MustCompile(` +`)
)

// undated returns a text without its dates, durations and columns.
func undated(text string) string {
	text = durations.ReplaceAllString(dates.ReplaceAllString(text, "DATE"), "DURATION")
	return spaces.ReplaceAllString(text, " ")
}

// otherPorts returns a function that replaces the ports of the page with free ones.
func otherPorts(t *testing.T, ports ...string) func(string) string {
	t.Helper()
	free, err := redistest.FreePorts(len(ports))
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for i, p := range ports {
		pairs = append(pairs, p, free[i])
	}
	return strings.NewReplacer(pairs...).Replace
}

// A shell runs commands of a page.
type shell struct {
	dir   string
	admin string // the URL that commands of sluice call
}

func (s shell) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = s.dir
	cmd.Env = append(process.Environ(), "PATH="+filepath.Dir(process.Program())+":"+os.Getenv("PATH"), "SLUICE_SERVER="+s.admin)
	return cmd
}

// output runs a command and returns its output.
func (s shell) output(text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	out, err := s.command(ctx, text).Output()
	return string(out), err
}

// background runs a command until the test ends.
func (s shell) background(t *testing.T, command string) {
	t.Helper()
	cmd := s.command(context.Background(), "exec "+command)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // how does not matter
		if t.Failed() {
			t.Logf("%s\nprinted:\n%s", command, log.String())
		}
	})
}

// TestMetricsOfThePageExist finds each metric that the page names.
func TestMetricsOfThePageExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, storeAt("127.0.0.1:1"))
	_, figures := s.request("admin", "GET", "/metrics", "")
	names := regexp.MustCompile("`(sluice_[a-z_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 8 {
		t.Errorf("the page names %d metrics", len(names))
	}
	for _, name := range names {
		if !strings.Contains(figures, "# TYPE "+name[1]+" ") {
			t.Errorf("there is no metric %s", name[1])
		}
	}
}
