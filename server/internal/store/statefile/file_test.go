package statefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // tests may have closed it
	return f
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
}

// TestReplaceAndAppend writes a file and adds to it. Only its user can read it.
func TestReplaceAndAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states")
	f := open(t, path)
	if _, err := f.Reader(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
	if f.CanAppend() {
		t.Error("changes can be appended to nothing")
	}
	for _, all := range []string{"first ", "second "} {
		if err := errors.Join(f.Replace(text(all)), f.Append(text("change ")), f.Append(text("again"))); err != nil {
			t.Fatal(err)
		}
		holds(t, path, all+"change again")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != mode || info.Size() != f.Size() {
		t.Errorf("%v, %v; the size is %d", info, err, f.Size())
	}
	if f.ShouldCompact() {
		t.Error("a small file is compacted")
	}
	if err := f.Append(text(strings.Repeat("x", 1<<20))); err != nil || !f.ShouldCompact() {
		t.Errorf("a file with many changes is not compacted, %v", err)
	}
	if files, err := filepath.Glob(path + "*"); err != nil || len(files) != 2 {
		t.Errorf("there are the files %v, %v", files, err)
	}
}

var errTest = errors.New("a failure")

// TestFailuresLeaveAWholeFile: after each failure the file has what was there before, or the whole change.
func TestFailuresLeaveAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states")
	f := open(t, path)
	if err := f.Replace(text("all ")); err != nil {
		t.Fatal(err)
	}
	half := func(w io.Writer) error { return errors.Join(text("half ")(w), errTest) }
	if err := f.Replace(half); !errors.Is(err, errTest) || !f.CanAppend() {
		t.Errorf("%v, can append: %v", err, f.CanAppend())
	}
	holds(t, path, "all ")
	if err := f.Append(half); !errors.Is(err, errTest) || !f.CanAppend() {
		t.Errorf("%v, can append: %v", err, f.CanAppend())
	}
	holds(t, path, "all half ")

	synced := f.sync
	f.sync = func(*os.File) error { return errTest }
	if err := f.Append(text("unsure ")); !errors.Is(err, errTest) || f.CanAppend() {
		t.Errorf("after a failed sync: %v, can append: %v", err, f.CanAppend())
	}
	if err := f.Replace(text("new ")); !errors.Is(err, errTest) || f.CanAppend() {
		t.Errorf("after a failed sync: %v, can append: %v", err, f.CanAppend())
	}
	holds(t, path, "all half unsure ")
	f.sync = synced
	if err := f.Replace(text("new ")); err != nil || !f.CanAppend() {
		t.Errorf("%v, can append: %v", err, f.CanAppend())
	}
	holds(t, path, "new ")

	w := &appender{file: f.current, at: f.size}
	closed, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	w.file = closed
	if _, err := w.Write([]byte("x")); err == nil || !w.broken {
		t.Error("a write that cannot be taken back does not break the file")
	}
}

// TestSomebodyElseChangesTheFile: changes are never appended to a file that was removed, replaced or
// cut.
func TestSomebodyElseChangesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states")
	for what, change := range map[string]func() error{
		"removed":  func() error { return os.Remove(path) },
		"replaced": func() error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("another"), 0o600)) },
		"cut":      func() error { return os.Truncate(path, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			f := open(t, path)
			if err := f.Replace(text("all")); err != nil || !f.CanAppend() {
				t.Fatalf("%v, can append: %v", err, f.CanAppend())
			}
			if err := change(); err != nil || f.CanAppend() {
				t.Errorf("%v, can append: %v", err, f.CanAppend())
			}
		})
	}
}

// TestAFileHasOneOwner: a second server cannot have the file, also by a link. The lock ends with the first.
func TestAFileHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "states"), filepath.Join(dir, "link")
	f := open(t, path)
	if err := f.Replace(text("all")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		if _, err := Open(p); !errors.Is(err, ErrInUse) {
			t.Errorf("%s has an owner, but opening it returned %v", p, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, link)
	if err := second.Replace(text("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new") // the link stays
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// TestUnusableFilesAreSetAside keeps a file that cannot be used.
func TestUnusableFilesAreSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states")
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	aside, err := f.SetAside(time.Unix(1_900_000_000, 0))
	if err != nil || aside != f.Path()+".refused-20300317T174640.000Z" {
		t.Fatalf("the file was set aside as %q, %v", aside, err)
	}
	holds(t, aside, "other")
	if err := f.Replace(text("all")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "all")
}

// TestCheckLeavesNothingBehind leaves nothing behind.
func TestCheckLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "states")
	if file, err := Check(path); file != nil || err != nil {
		t.Errorf("the check of a new path opened %v, %v", file, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the check left %v, %v", files, err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "missing", "states")} {
		if _, err := Check(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
		if _, err := Open(bad); err == nil {
			t.Errorf("%s is opened", bad)
		}
	}
}
