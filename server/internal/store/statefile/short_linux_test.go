package statefile

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestShortWritesLeaveNothing lets the system write only a part of a change or of a snapshot, as on a disk that becomes full. The
// file has what was there before, and takes the next change when there is room.
func TestShortWritesLeaveNothing(t *testing.T) {
	exceeded := make(chan os.Signal, 4)
	signal.Notify(exceeded, syscall.SIGXFSZ) // or it would end the program
	t.Cleanup(func() { signal.Stop(exceeded) })
	path := filepath.Join(t.TempDir(), "states")
	f := open(t, path)
	if err := f.Replace(text("all ")); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 100)

	lift := bound(t, 10)
	if err := f.Append(text(large)); !errors.Is(err, syscall.EFBIG) || !f.CanAppend() || f.Size() != 4 {
		t.Errorf("a change of which 6 bytes were written: %v, can append: %v, size %d; want the system's error, and the size of before", err, f.CanAppend(), f.Size())
	}
	holds(t, path, "all ")
	if err := f.Replace(text(large)); !errors.Is(err, syscall.EFBIG) || !f.CanAppend() {
		t.Errorf("a snapshot of which 10 bytes were written: %v, can append: %v; want the system's error, and the file of before", err, f.CanAppend())
	}
	holds(t, path, "all ")
	if _, err := os.Stat(path + NewSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part of a snapshot stays on the disk: %v", err)
	}
	if err := f.Append(text("small ")); err != nil {
		t.Errorf("a change that fits: %v", err)
	}
	lift()
	if err := f.Append(text("more ")); err != nil {
		t.Errorf("a change when there is room again: %v", err)
	}
	holds(t, path, "all small more ")
}

// bound bounds the size of the files that this process writes, until the test or the returned function ends.
func bound(t *testing.T, size uint64) (lift func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	lift = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lift)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	return lift
}
