package sluice_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSnippetsAreExamples finds the Go code of the README and the guide, line for line, in examples
// that are run.
func TestSnippetsAreExamples(t *testing.T) {
	var examples strings.Builder
	for _, pattern := range []string{"example*_test.go", "*/example*_test.go", "examples/*/main.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			examples.WriteString(trimmed(read(t, file)))
		}
	}
	for page, least := range map[string]int{"README.md": 1, "docs/guide.md": 10} {
		snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, page), -1)
		if len(snippets) < least {
			t.Errorf("%s has %d Go snippets, want %d or more", page, len(snippets), least)
		}
		for _, s := range snippets {
			if !strings.Contains(examples.String(), trimmed(s[1])) {
				t.Errorf("no example has this snippet of %s:\n%s", page, s[1])
			}
		}
	}
}

// trimmed returns the lines of a text without their indentation.
func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// TestReadmeLinksExist follows the README's links to files.
func TestReadmeLinksExist(t *testing.T) {
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		if _, err := os.Stat(link[1]); err != nil {
			t.Errorf("the README links to %s, which does not exist", link[1])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
