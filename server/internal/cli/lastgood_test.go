package cli

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTheProgramStartsWithItsLastGoodFile breaks the file of the real program, and a list that the file names, and starts
// it again.
func TestTheProgramStartsWithItsLastGoodFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, list, kept := filepath.Join(dir, "sluice.yaml"), filepath.Join(dir, "denied.txt"), filepath.Join(dir, "last-good")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configuration := func(burst string) string {
		return "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\n" +
			"rules: [{name: a, key: client_ip, deny: {client_ip_file: denied.txt}, limit: {algorithm: token_bucket, rate: 1/h, burst: " + burst + "}}]\n"
	}
	// budget returns how many requests a start of the program allows, of ten.
	budget := func(p *program) (n int) {
		for range 10 {
			if status, _ := p.get("proxy", "/"); status == http.StatusOK {
				n++
			}
		}
		return n
	}
	path := build(t)
	start := func() *program { return run(t, path, file, "--last-good", kept) }
	stop := func(p *program) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if p.wait() != 0 {
			t.Errorf("the program ended with an error: %s", p.stderr)
		}
	}

	write(list, "192.0.2.1\n")
	write(file, "version: 1\nrules: nonsense\n")
	if out, err := exec.Command(path, "serve", file, "--last-good", kept).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("sluice.yaml:2:8")) {
		t.Errorf("without a copy, a bad file gives %v: %s", err, out)
	}

	write(file, configuration("2"))
	p := start()
	if got := budget(p); got != 2 {
		t.Errorf("the file allows %d requests, want 2", got)
	}
	write(file, configuration("3")) // a reload is kept too
	eventually(t, "the reload", func() bool {
		_, text := p.get("admin", "/metrics")
		return strings.Contains(text, "sluice_config_reloads_total{outcome=\"applied\"} 2\n")
	})
	write(file, configuration("4 # not a number")+"more: [")
	eventually(t, "the refusal", func() bool {
		_, text := p.get("admin", "/readyz")
		return strings.Contains(text, "config: refused since ")
	})
	stop(p)
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", info, err)
	}

	write(list, "not an address\n") // the copy has the list too
	p = start()
	if got := budget(p); got != 3 {
		t.Errorf("the copy allows %d requests, want 3", got)
	}
	if status, text := p.get("admin", "/readyz"); status != http.StatusOK || !strings.Contains(text, "config: refused since ") {
		t.Errorf("/readyz answers %d %q", status, text)
	}
	if _, text := p.get("admin", "/metrics"); !strings.Contains(text, "sluice_config_last_reload_successful 0\n") {
		t.Error("the metrics do not say that the file is refused")
	}
	write(list, "192.0.2.1\n")
	write(file, configuration("5"))
	eventually(t, "the recovery", func() bool {
		_, text := p.get("admin", "/readyz")
		return text == "ok\n"
	})
	stop(p)
	if log := p.stderr.String(); !strings.Contains(log, "starts with an earlier configuration") || !strings.Contains(log, "sluice.yaml:") {
		t.Errorf("the log has %s", log)
	}

	// A copy that is cut off, and a folder where none can be, are errors.
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 1, len(text) / 2, len(text) - 1} {
		write(kept, string(text[:cut]))
		write(file, "version: 2\n")
		if out, err := exec.Command(path, "serve", file, "--last-good", kept).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("copy of a configuration")) {
			t.Errorf("a copy of %d bytes gives %v: %s", cut, err, out)
		}
	}
	write(kept, strings.Replace(string(text), "denied.txt", "denied.tst", 1))
	if out, err := exec.Command(path, "serve", file, "--last-good", kept).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("was changed since")) {
		t.Errorf("a changed copy gives %v: %s", err, out)
	}
	write(file, configuration("5"))
	nowhere := filepath.Join(dir, "nowhere", "last-good")
	if out, err := exec.Command(path, "serve", file, "--last-good", nowhere).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("cannot be saved")) {
		t.Errorf("a folder that is not there gives %v: %s", err, out)
	}
	if out, err := exec.Command(path, "serve", "--last-good", kept).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("give a FILE")) {
		t.Errorf("without a file, --last-good gives %v: %s", err, out)
	}
}

// A path that holds something else is refused, so that the copy never replaces the configuration.
func TestTheLastGoodFileReplacesOnlyCopies(t *testing.T) {
	dir := t.TempDir()
	for name, x := range map[string]struct {
		text string
		ok   bool
	}{
		"configuration": {"version: 1\nrules: []\n", false},
		"short":         {"x", false},
		"empty":         {"", true},
		"copy":          {`{"format":"sluice-configuration-1",`, true},
		"later copy":    {`{"format":"sluice-configuration-2",`, true},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := lastGood(path).checkTarget(); (err == nil) != x.ok {
			t.Errorf("a target %s may be replaced: %v, got %v", name, x.ok, err)
		}
	}
	if err := lastGood(filepath.Join(dir, "none")).checkTarget(); err != nil {
		t.Error(err)
	}
}
