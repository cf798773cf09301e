package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPolicies: every link in the page leads somewhere, every test that it names is there, and
// every trick has one.
func TestPolicies(t *testing.T) {
	const page = "../../docs/policies.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(l[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(l[1]))); err != nil {
			t.Errorf("the page links to %s: %v", l[1], err)
		}
	}
	_, tricks, found := strings.Cut(string(text), "| trick | what holds | test |\n")
	rows := 0
	for line := range strings.Lines(tricks) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		rows++
		links := link.FindAllStringSubmatch(line, -1)
		if len(links) == 0 {
			t.Errorf("a trick names no test: %s", line)
		}
		for _, l := range links {
			source, err := os.ReadFile(filepath.Join(filepath.Dir(page), filepath.FromSlash(l[2])))
			if err != nil || !strings.Contains(string(source), "\nfunc "+l[1]+"(") {
				t.Errorf("there is no %s in %s: %v", l[1], l[2], err)
			}
		}
	}
	if !found || rows < 10 {
		t.Errorf("found %d tricks: is this still the page?", rows)
	}
}
