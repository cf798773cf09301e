package sluice_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeSnippetIsTheExample finds the README's Go code, line for line, in the
// example that is run.
func TestReadmeSnippetIsTheExample(t *testing.T) {
	readme := read(t, "README.md")
	example := read(t, "example_readme_test.go")
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(snippets) != 1 {
		t.Fatalf("the README has %d Go snippets, want 1", len(snippets))
	}
	var indented strings.Builder
	for line := range strings.Lines(snippets[0][1]) {
		if line != "\n" {
			indented.WriteString("\t")
		}
		indented.WriteString(line)
	}
	if !strings.Contains(example, indented.String()) {
		t.Errorf("the README's snippet is not the example:\n%s", indented.String())
	}
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
