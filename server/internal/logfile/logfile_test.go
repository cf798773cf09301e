package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A file is renamed and removed while lines are written. Each line is in one of the files, whole.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const writers, lines = 4, 500
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range lines {
				if _, err := fmt.Fprintf(f, "%d/%d %s\n", w, i, strings.Repeat("x", 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		_ = os.Rename(path, fmt.Sprintf("%s.%d", path, i)) // it may not be there yet
	}
	all.Wait()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, rest, _ := strings.Cut(line, " ")
			if seen[name] || rest != strings.Repeat("x", 100)+"\n" {
				t.Errorf("the line %.20q is torn or twice there", line)
			}
			seen[name] = true
		}
	}
	if len(seen) != writers*lines {
		t.Errorf("%d lines of %d are there", len(seen), writers*lines)
	}
}

func TestFilesThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none", "audit.log"), ""} {
		if f, err := Open(path); err == nil {
			t.Errorf("%q opens: %v", path, f)
		}
	}
	for _, stream := range []string{Stdout, Stderr} {
		f, err := Open(stream)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
