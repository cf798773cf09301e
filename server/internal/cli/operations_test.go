package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestADayOfOperation runs the commands of docs/operations.md, in their order, on the configuration of the page. Only its
// folders, addresses and certificate are replaced.
func TestADayOfOperation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	local := strings.NewReplacer(
		"/etc/sluice", dir, "/var/lib/sluice", dir, "/var/log/sluice", dir,
		"proxy: {address: 0.0.0.0:443, tls: {cert: /etc/sluice/cert.pem, key: /etc/sluice/key.pem}}", "proxy: 127.0.0.1:0",
		"api: off", "api: 127.0.0.1:0", "127.0.0.1:9090", "127.0.0.1:0", "upstream: http://127.0.0.1:3000\n", "",
	)
	blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	binary := build(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "the-token-of-a-day-of-operation")
	var p *program
	var said []string
	for _, b := range blocks {
		if b[1] == "yaml" {
			write("sluice.yaml", local.Replace(b[2]))
			continue
		}
		for line := range strings.Lines(b[2]) {
			line = strings.TrimSpace(local.Replace(line))
			if args, ok := strings.CutPrefix(line, "sluice serve sluice.yaml "); ok {
				p = run(t, binary, filepath.Join(dir, "sluice.yaml"), strings.Fields(args)...)
				t.Setenv("SLUICE_SERVER", p.url["admin"])
				continue
			}
			if name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "="); ok && strings.HasPrefix(line, "export ") {
				t.Setenv(name, value)
				continue
			}
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("the documented command failed: %s: %v\n%s", line, err, out)
			}
			said = append(said, line+"\n"+string(out))
		}
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{
		"ok, 1 rule", "banned by per-client for 1h0m0s", "by hand  per-client  192.0.2.1", `"action":"unban","by":"token","claimed":`,
		"192.0.2.7 gets up to 50 units back for per-client\n", "replaced for per-client", `"unlimited":true,"until":"2099-01-31T18:00:00Z","note":"ticket 14: partner"`, "removed for per-client", `"result":"done"`,
	} {
		if !strings.Contains(regexp.MustCompile(` {2,}`).ReplaceAllString(all, "  "), want) {
			t.Errorf("the commands do not print %q:\n%s", want, all)
		}
	}
	if p == nil {
		t.Fatal("the page starts no server")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if p.wait() != 0 {
		t.Errorf("the server ended with an error: %s", p.stderr)
	}
	for _, file := range []string{"states", "last-good", "audit.log", "access.log"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("after the day: %v", err)
		}
	}
}
