package gateways

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
)

// shown is a block of configuration on a page.
type shown struct{ page, language, text string }

// blocks finds the blocks of some languages on pages.
func blocks(t *testing.T, languages string, pages ...string) (all []shown) {
	t.Helper()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?s)```("+languages+")\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			all = append(all, shown{filepath.Base(page), m[1], m[2]})
		}
	}
	return all
}

// examples returns the text of the files that the other tests run.
func examples(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"gateways/*", "haproxy-spoe/*"} {
		files, err := filepath.Glob(filepath.Join(folder, "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

// isPart reports whether a text has all lines of a block.
func isPart(block, text string) bool {
	for line := range strings.Lines(block) {
		if !strings.Contains(text, line) {
			return false
		}
	}
	return true
}

// TestPageShowsTheFiles finds what docs/gateways.md shows of files in the files, which the other tests run.
func TestPageShowsTheFiles(t *testing.T) {
	t.Parallel()
	name := filepath.Join("..", "..", "docs", "gateways.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.Contains(string(page), "(../examples/gateways/"+filepath.Base(file)+")") && filepath.Base(file) != "sluice.yaml" {
			t.Errorf("the page does not name %s", file)
		}
	}
	all := examples(t)
	found := 0
	for _, b := range blocks(t, "nginx|lua|caddy|yml", name) {
		if isPart(b.text, all) {
			found++
		}
	}
	if found < 8 {
		t.Errorf("%d blocks are parts of files", found)
	}
}

// Each block for a gateway in the documentation is a part of a file that the other tests run, or the gateway takes it.
func TestSnippetsAreValid(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := examples(t)
	snippets := blocks(t, "caddy|nginx|haproxy|lua", append(pages, filepath.Join("..", "..", "README.md"))...)
	if len(snippets) < 7 {
		t.Errorf("found %d blocks", len(snippets))
	}
	for _, b := range snippets {
		// The other one is of a library that is compared with ours.
		if !isPart(b.text, all) && !strings.HasPrefix(b.text, "limit_req.new") {
			check(t, b)
		}
	}
}

// check lets a gateway check a block inside the file that it needs.
func check(t *testing.T, b shown) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var file string
	var command []string
	switch b.language {
	case "caddy":
		file = "http://127.0.0.1:8000 {\n\troute {\n" + b.text + "\t}\n}\n"
		command = []string{"caddy", "validate", "--adapter", "caddyfile", "--config", path}
	case "nginx":
		file = "events {}\nhttp {\n" + b.text + "server { listen 127.0.0.1:8000; }\n}\n"
		command = []string{"nginx", "-t", "-p", dir, "-c", path, "-e", "stderr", "-g", "pid " + filepath.Join(dir, "pid") + ";"}
	case "haproxy":
		file = "frontend web\n    mode http\n    timeout client 1s\n    bind 127.0.0.1:8000\n" + b.text
		command = []string{"haproxy", "-c", "-f", path}
	default:
		t.Errorf("%s shows what no file has:\n%s", b.page, b.text)
		return
	}
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := process.Find(command[0], command[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, command[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %s refuses\n%s\n%v\n%s", b.page, command[0], b.text, err, out)
	}
}
