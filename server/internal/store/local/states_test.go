package local

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/server/internal/store/statefile"
)

// openStates returns a store whose states are saved in a file.
func openStates(t *testing.T, path string) (*States, *memory.Store) {
	t.Helper()
	file, err := statefile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &States{
		file: file, saver: store.NewSaver(), every: time.Minute, logger: slog.New(slog.DiscardHandler),
		observe: func(time.Duration) {},
	}
	t.Cleanup(func() {
		_ = s.Close() // a test may have closed it
		_ = store.Close()
	})
	if err := s.save(true); err != nil {
		t.Fatal(err)
	}
	return s, store
}

// TestFileOfStatesStaysSmall changes states many times as often as the file could hold them. The file is
// written again when the changes are as large as the states, and has the latest state of each key.
func TestFileOfStatesStaysSmall(t *testing.T) {
	t.Parallel()
	const keys, rounds, stateBytes = 20_000, 9, 31 // the changes are twice as much as the file may have
	path := filepath.Join(t.TempDir(), "states")
	s, store := openStates(t, path)
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1000})
	largest := int64(0)
	for range rounds {
		for k := range keys {
			if d, err := store.Take(t.Context(), l, sluice.StringKey(strconv.Itoa(k)), 1); err != nil || !d.Allowed {
				t.Fatalf("key %d of the file should be allowed: %+v, %v", k, d, err)
			}
		}
		if err := s.save(false); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, s.file.Size())
	}
	// The states, as many changes before the file is written again, and the changes of one save.
	if most := int64(3*keys*stateBytes + 1<<20); largest > most {
		t.Errorf("the file has had %d bytes, want up to %d", largest, most)
	}
	if c := s.figures(); c.saved != rounds+1 || c.failed > 0 || c.size != s.file.Size() {
		t.Errorf("want a save in each round and none failed, got %+v", c)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	loaded, report, err := memory.Load(file, memory.Options{})
	if err != nil || report.States != keys {
		t.Fatalf("the file should have all states: %+v, %v", report, err)
	}
	defer loaded.Close()
	for k := range keys {
		d, err := loaded.Take(t.Context(), l, sluice.StringKey(strconv.Itoa(k)), 0)
		if err != nil || d.Remaining != 1000-rounds {
			t.Fatalf("key %d: %+v, %v", k, d, err)
		}
	}
}

// TestFileThatCannotBeCompacted: while no new file can be written, changes are still appended, and
// count as saved.
func TestFileThatCannotBeCompacted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "states")
	s, store := openStates(t, path)
	// A folder that is not empty has the name of the new file.
	if err := os.MkdirAll(path+".new/folder", 0o700); err != nil {
		t.Fatal(err)
	}
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1000})
	for round := range 3 {
		for k := range 15_000 { // three rounds are more than the least that is written again
			if _, err := store.Take(t.Context(), l, sluice.StringKey(strconv.Itoa(k)), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.save(false); err != nil || s.Status() != "" {
			t.Fatalf("round %d: %v, %q", round, err, s.Status())
		}
	}
	if !s.file.ShouldCompact() {
		t.Fatalf("the file has %d bytes, and need not be written again", s.file.Size())
	}
	if err := os.RemoveAll(path + ".new"); err != nil {
		t.Fatal(err)
	}
	before := s.file.Size()
	s.retryAt = time.Time{}
	if err := s.save(false); err != nil || s.file.Size() >= before/2 {
		t.Errorf("%v; the file has %d bytes, and had %d", err, s.file.Size(), before)
	}
}
