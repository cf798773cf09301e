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
		root := Root()
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

// TestEnvoyPage runs what docs/envoy.md shows of explain and import on the configuration that it shows first, and reads
// all configurations of the page.
func TestEnvoyPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	t.Chdir(t.TempDir())
	var ours, printed []string
	folders := 0
	for _, b := range blocks {
		switch kind, text := b[1], b[2]; {
		case kind == "yaml" && strings.HasPrefix(text, "domain:"):
			folder := "config"
			if folders++; folders > 1 {
				folder = "more"
			}
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case kind == "yaml":
			ours = append(ours, text)
		case kind == "" && !strings.HasPrefix(text, "sluice"):
			printed = append(printed, text)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := Root()
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if folders != 2 || len(ours) != 1 || len(printed) != 1 {
		t.Fatalf("the page shows %d folders, %d files of ours, %d outputs", folders, len(ours), len(printed))
	}
	command := regexp.MustCompile(`sluice (explain config [^\n]*)\n`).FindSubmatch(page)
	if got := run(strings.Fields(string(command[1]))...); got != printed[0] {
		t.Errorf("explain prints\n%s", got)
	}
	if got := run("import", "envoy", "config"); got != ours[0] {
		t.Errorf("import prints\n%s", got)
	}
	if got := run("validate", "--brief", "more"); !strings.Contains(got, "more: ok, 2 rules") {
		t.Errorf("validate prints %s", got)
	}
}
