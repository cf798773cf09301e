// Package promises holds the documentation to name tests that exist.
package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a test in the page: its name, and the file that it is in.
var link = regexp.MustCompile(`\[((?:Test|Fuzz)\w+)\]\(([^)#]+_test\.go)\)`)

// TestFailureModes: every row of every table in the page names a test, and every test that
// is named is in the file that it is linked to.
func TestFailureModes(t *testing.T) {
	const page = "../../docs/failure-modes.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows, heading := 0, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			heading = line
		}
		links := link.FindAllStringSubmatch(line, -1)
		isRow := strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") && !strings.HasSuffix(line, "| test |")
		if isRow {
			rows++
			if len(links) == 0 {
				t.Errorf("%s: a row names no test: %s", heading, line)
			}
		}
		for _, l := range links {
			source, err := os.ReadFile(filepath.Join(filepath.Dir(page), filepath.FromSlash(l[2])))
			if err != nil {
				t.Errorf("the file of %s cannot be read: %v", l[1], err)
			} else if !strings.Contains(string(source), "\nfunc "+l[1]+"(t *testing.T)") && !strings.Contains(string(source), "\nfunc "+l[1]+"(f *testing.F)") {
				t.Errorf("there is no %s in %s", l[1], l[2])
			}
		}
	}
	if rows < 30 {
		t.Errorf("found %d rows: is this still the page?", rows)
	}
}
