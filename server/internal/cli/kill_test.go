package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKillsLeaveNothing kills the program while it saves its states or the copy of its configuration. The next start leaves
// no file of the killed one.
func TestKillsLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, file, kept, states := build(t), filepath.Join(dir, "sluice.yaml"), filepath.Join(dir, "kept"), filepath.Join(dir, "states")
	// A large list, so that a copy takes long enough to be killed.
	list := strings.Repeat("# a line of a comment that makes the list long\n", 200_000) + "192.0.2.1\n"
	text := "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\nstore: {memory: {file: " + states + "}}\n" +
		"rules: [{name: a, key: client_ip, deny: {client_ip_file: denied.txt}, limit: {algorithm: token_bucket, rate: 1/h}}]\n"
	for name, text := range map[string]string{filepath.Join(dir, "denied.txt"): list, file: text} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kill := func(when string) {
		t.Helper()
		for {
			cmd := exec.CommandContext(t.Context(), path, "serve", file, "--last-good", kept)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a save", func() bool {
				_, err := os.Stat(when)
				return err == nil
			})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("the program ended by itself")
			}
			if _, err := os.Stat(when); err == nil {
				return // it was killed in time
			}
		}
	}
	names := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	stop := func(p *program) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if p.wait() != 0 {
			t.Errorf("the program ended with an error: %s", p.stderr)
		}
	}
	const want = "denied.txt kept sluice.yaml states states.lock states.overrides.lock"
	kill(kept + newCopy)
	stop(run(t, path, file, "--last-good", kept))
	if got := strings.Join(names(), " "); got != want {
		t.Errorf("after a start there are %s, want %s", got, want)
	}

	// A start with the copy saves none. What an older save of the states has left is removed too.
	for _, left := range []string{kept + newCopy, states + ".new"} {
		if err := os.WriteFile(left, []byte(copyBegin[:9]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("version: 1\nrules: nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop(run(t, path, file, "--last-good", kept))
	if got := strings.Join(names(), " "); got != want {
		t.Errorf("after a start with the copy there are %s, want %s", got, want)
	}

	// A file of somebody else under that name stays.
	if err := os.WriteFile(kept+newCopy, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "serve", file, "--last-good", kept).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("kept.new is another file")) {
		t.Errorf("another file gives %v: %s", err, out)
	}
	if text, err := os.ReadFile(kept + newCopy); err != nil || string(text) != "precious" {
		t.Errorf("another file has %q, %v", text, err)
	}
}
