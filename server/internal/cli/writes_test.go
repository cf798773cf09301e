package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestNoFileIsUsedTwice checks and starts the program with files of which one would be written over another, and makes such a
// change while it runs.
func TestNoFileIsUsedTwice(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := build(t)
	const begin = "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0'}\n"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "a-token-of-operators")
	if err := os.Symlink("states", "link"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		text, lastGood string
		want           []string
	}{
		{"audit: {file: log}\naccess_log: {file: ./log}\n", "kept", []string{"sluice.yaml:3:15: audit.file", "access_log.file"}},
		{"audit: {file: link}\nstore: {memory: {file: states}}\n", "kept", []string{"audit.file", "store.memory.file"}},
		{"access_log: {file: states.lock}\nstore: {memory: {file: states}}\n", "kept", []string{"access_log.file", "the lock of store.memory.file"}},
		{"access_log: {file: states.new}\nstore: {memory: {file: states}}\n", "kept", []string{"access_log.file", "the next save of store.memory.file"}},
		{"audit: {file: sluice.yaml}\n", "kept", []string{"audit.file", "the configuration"}},
		{"audit: {file: kept}\n", "./kept", []string{"audit.file", "last-good"}},
		{"audit: {file: kept.new}\n", "kept", []string{"audit.file", "last-good"}},
		{"audit: {file: log}\n", "sluice.yaml", []string{"last-good", "the configuration"}},
		{"store: {memory: {file: states}}\n", "link", []string{"store.memory.file", "last-good"}},
		{"admin: {token_file: token}\n", "token", []string{"last-good", "admin.token_file"}},
	} {
		text := begin + x.text
		write("sluice.yaml", text)
		for _, command := range []string{"validate", "serve"} {
			out, err := exec.Command(path, command, "sluice.yaml", "--last-good", x.lastGood).CombinedOutput()
			if err == nil {
				t.Errorf("%s accepts\n%s", command, x.text)
			}
			for _, want := range append(x.want, "give each of them a file of its own") {
				if !bytes.Contains(out, []byte(want)) {
					t.Errorf("%s does not say %q of\n%s%s", command, want, x.text, out)
				}
			}
		}
		if now, err := os.ReadFile("sluice.yaml"); err != nil || string(now) != text {
			t.Errorf("the configuration has changed, %v:\n%s", err, now)
		}
		for _, none := range []string{"log", "kept", "states", "states.lock"} {
			if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is there, %v, after\n%s", none, err, x.text)
			}
		}
	}

	rule := func(more string) string {
		return begin + "audit: {file: log}\nrules: [{name: a, key: client_ip" + more + ", limit: {algorithm: token_bucket, rate: 1/h}}]\n"
	}
	write("sluice.yaml", rule(""))
	p := run(t, path, "sluice.yaml")
	write("next", rule(", when_limited: {file: log}"))
	if err := os.Rename("next", "sluice.yaml"); err != nil { // in one step, so that the server reads nothing else
		t.Fatal(err)
	}
	eventually(t, "the refusal", func() bool {
		_, text := p.get("admin", "/readyz")
		return strings.Contains(text, "config: refused since ")
	})
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if p.wait() != 0 || !strings.Contains(p.stderr.String(), "audit.file") || !strings.Contains(p.stderr.String(), "rules[0].when_limited.file") {
		t.Errorf("the log has\n%s", p.stderr)
	}
}
