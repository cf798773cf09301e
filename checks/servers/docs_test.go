package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a fenced block of the page.
type block struct{ language, text string }

// blocks returns those of docs/redis.md, or of one of its sections.
func blocks(t *testing.T, section ...string) []block {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, s := range section {
		_, rest, ok := strings.Cut(text, "\n## "+s+"\n")
		if !ok {
			t.Fatalf("docs/redis.md has no section %q", s)
		}
		text, _, _ = strings.Cut(rest, "\n## ")
	}
	var all []block
	for _, m := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// TestQuickStart runs the commands of the page, each with what is printed after it,
// on ports that are free.
func TestQuickStart(t *testing.T) {
	steps := blocks(t, "Two servers, one limit")
	dir := t.TempDir()
	config := filepath.Join(dir, "shared.yaml")
	places := otherPorts(t, "6379", "8080", "8081", "9090", "8180", "8181", "9190")
	ran := 0
	for i, step := range steps {
		text := places(step.text)
		switch step.language {
		case "yaml":
			// The machine may be busy, and the first server listens where no flag says otherwise.
			text = patient(text)
			text += places("listen: {proxy: '127.0.0.1:8080', api: '127.0.0.1:8081', admin: '127.0.0.1:9090'}\n")
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			command := strings.TrimSpace(text)
			ran++
			if strings.HasPrefix(command, "redis-server") || strings.HasPrefix(command, "sluice serve") {
				background(t, dir, command)
				wait := "redis-cli -p " + places("6379") + " ping | grep PONG"
				if port := regexp.MustCompile(`--listen-admin (\S+)`).FindStringSubmatch(command); port != nil {
					wait = "curl -sf http://" + port[1] + "/readyz"
				} else if strings.HasPrefix(command, "sluice") {
					wait = places("curl -sf http://127.0.0.1:9090/readyz")
				}
				eventually(t, command, func() bool { _, err := shell(dir, wait); return err == nil })
				continue
			}
			want := ""
			if i+1 < len(steps) && steps[i+1].language == "text" {
				want = undated(steps[i+1].text)
			}
			got, err := shell(dir, command)
			// A server may take a second to notice what becomes of the store.
			if strings.Contains(command, "readyz") && undated(got) != want {
				eventually(t, command+" printing "+want, func() bool {
					got, err = shell(dir, command)
					return undated(got) == want
				})
			}
			if err != nil || undated(got) != want {
				t.Fatalf("%s\nprints:\n%s\nwant:\n%s\n%v", command, got, want, err)
			}
		}
	}
	if ran < 9 {
		t.Errorf("the page has %d commands", ran)
	}
}

var dates = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// undated is a text without its dates.
func undated(text string) string { return dates.ReplaceAllString(text, "DATE") }

// otherPorts returns what puts free ports in place of those of the page.
func otherPorts(t *testing.T, ports ...string) func(string) string {
	t.Helper()
	var pairs []string
	var held []net.Listener // until the last, so that they differ
	for _, p := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		_, free, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p, free)
	}
	for _, l := range held {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// bash is a command as in the page.
func bash(ctx context.Context, dir, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	return cmd
}

// shell runs a command and returns what it prints.
func shell(dir, command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := bash(ctx, dir, command).Output()
	return string(out), err
}

// background runs a command until the test ends.
func background(t *testing.T, dir, command string) {
	t.Helper()
	cmd := bash(context.Background(), dir, "exec "+command)
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
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, storeAt("127.0.0.1:1"))
	_, figures := s.ask("admin", "GET", "/metrics", "")
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
