package process

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func configuration(t *testing.T, text string) string {
	t.Helper()
	file := t.TempDir() + "/sluice.yaml"
	if err := os.WriteFile(file, []byte("version: 1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestServersStartAndEndInOrder starts a server, finds its listeners, and ends it in order.
func TestServersStartAndEndInOrder(t *testing.T) {
	file := configuration(t, "listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: off}\nupstream: echo\nrules: []\n")
	s := StartSluice(t, exec.Command(Program(), "serve", file), 2)
	for _, listener := range []string{"proxy", "api"} {
		if err := s.Accepts(s.Address(listener)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.ExitCode(); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, s.Log())
	}
	if err := s.Accepts(s.Address("proxy")); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("a server that has ended: %v", err)
	}
}

// TestProgramsThatDoNotStartSayWhy starts programs that do not start or do not listen. The errors have what they say.
func TestProgramsThatDoNotStartSayWhy(t *testing.T) {
	file := configuration(t, "store: {redis: {addresses: ['127.0.0.1:1']}}\nno_such_setting: 1\n")
	if _, err := NewSluice(exec.Command(Program(), "serve", file), 1); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("a bad configuration: %v", err)
	}
	if _, err := New(exec.Command(t.TempDir()+"/nothing"), nil); err == nil || !strings.Contains(err.Error(), "does not start") {
		t.Errorf("a program that is missing: %v", err)
	}
	if _, err := Find("a-package", "no-such-program"); err == nil || !strings.Contains(err.Error(), "apt-get install a-package") {
		t.Errorf("a program that is missing: %v", err)
	}
	killed := Start(t, exec.Command("tail", "-f", "/dev/null"))
	killed.Kill()
	if code := killed.ExitCode(); code != -1 {
		t.Errorf("a killed program ends with %d", code)
	}
}
