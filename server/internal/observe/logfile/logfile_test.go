package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A file is renamed and removed while lines are written. Each line is in one of the files, whole.
func TestRotationLosesNoLine(t *testing.T) {
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

// A file that cannot be opened again is an error: its lines go where nobody may find them.
func TestAFileThatCannotBeOpenedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write([]byte("a\n")); err == nil || n != 2 {
		t.Errorf("the folder is gone, and Write returns %d, %v", n, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir+".old", "audit.log")); err != nil || string(text) != "a\n" {
		t.Errorf("the earlier file has %q, %v", text, err)
	}
}

// fullDisk takes some bytes at first.
type fullDisk struct {
	free int
	text strings.Builder
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.free {
		n, _ := d.text.Write(p[:d.free])
		d.free = 0
		return n, syscall.ENOSPC
	}
	return d.text.Write(p)
}

// A line that a full disk cut off does not spoil the next one.
func TestLinesAfterAFullDisk(t *testing.T) {
	disk := &fullDisk{free: 3}
	f := &File{out: disk}
	if n, err := f.Write([]byte("first\n")); n != 3 || err == nil {
		t.Errorf("the disk is full, and Write returns %d, %v", n, err)
	}
	if _, err := f.Write([]byte("no room\n")); err == nil {
		t.Error("the disk is full, and Write returns no error")
	}
	disk.free = 100
	for _, line := range []string{"second\n", "third\n"} {
		if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("Write returns %d, %v", n, err)
		}
	}
	if got := disk.text.String(); got != "fir\nsecond\nthird\n" {
		t.Errorf("the file has %q", got)
	}
}
