package promises

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecordsAreListed: the index of the decision records lists each record once, by its title.
func TestRecordsAreListed(t *testing.T) {
	const dir = "../../docs/adr"
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d records, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title, _, _ := strings.Cut(string(text), "\n")
		name := filepath.Base(file)
		number, subject, _ := strings.Cut(strings.TrimPrefix(title, "# "), ". ")
		line := "[" + number + "](" + name + ")"
		line += " " + subject + "\n"
		if number == "0000" {
			line = "[Record 0000](" + name + ")" // which says what a record is
		}
		if !strings.HasPrefix(name, number+"-") || strings.Count(string(index), line) != 1 {
			t.Errorf("%s is not listed once as %q", name, line)
		}
	}
}
