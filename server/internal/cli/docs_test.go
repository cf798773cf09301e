package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedExplanations runs what docs/server.md shows of explain and validate on
// the configuration that it shows first, and compares what is printed.
func TestDocumentedExplanations(t *testing.T) {
	page, err := os.ReadFile("../../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	block := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("docs/server.md has no %s", pattern)
		}
		return m[1]
	}
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(block("(?s)```yaml\n(.*?)```")), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}

	command := strings.TrimSpace(block("```sh\nsluice (explain [^\n]*)\n"))
	var args []string
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(command, -1) {
		args = append(args, strings.Replace(m[1]+m[2], "sluice.yaml", file, 1))
	}
	if got, want := run(args...), block("(?s)```\n(POST /login of .*?)```"); got != want {
		t.Errorf("%s prints\n%s\nand docs/server.md says\n%s", command, got, want)
	}

	words := block("(?s)```\nsluice.yaml: ok, 1 rule\n(.*?)```")
	if got := run("validate", file); !strings.Contains(got, words) {
		t.Errorf("validate prints\n%s\nand docs/server.md says\n%s", got, words)
	}
}
