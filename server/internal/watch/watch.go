// Package watch reports changes of files: of a file and other files that it names, or of a list of files. A file may be
// written in place or replaced by a rename. Or a symbolic link may point to another folder, as
// Kubernetes does with mounted files.
package watch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options configure a Watcher.
type Options struct {
	// Path is the file, or a folder. A folder changes when files in it, or in folders in it, come or go. Default: none,
	// to watch only Others.
	Path string
	// Others returns the files that the file names, which are watched too from then on. It is called after
	// each change. Default: none.
	Others func() []string
	// Most bounds the bytes that are read of each file. Required.
	Most int64
	// Quiet is how long no event may come before the file is read, and how long its content must then stay the same
	// before a change is reported: a program may still be writing it. The file is read at the latest ten times Quiet
	// after the first event. Default: 500 ms.
	Quiet time.Duration
	// Since reports a change once, whether there is one or not: the files may have changed since they were read, before
	// New. Default: false.
	Since bool
	// Poll is how often the file is read without an event. Not all file systems send events, and
	// not all links on the way to a file cause events. Default: 10 s.
	Poll time.Duration
}

// Watcher watches a file. Make it with New and use it with Run, once.
type Watcher struct {
	o      Options
	known  map[string]content // as reported
	latest map[string]content // as read last, if that is not reported yet
	events *fsnotify.Watcher  // nil if the system has no events
	err    error              // why
}

// content is the hash of a file; zero if it cannot be read.
type content [sha256.Size]byte

// New reads the file as it is now; Run reports changes since then. Make the Watcher before you read the file.
func New(o Options) *Watcher {
	if o.Quiet == 0 {
		o.Quiet = 500 * time.Millisecond
	}
	if o.Poll == 0 {
		o.Poll = 10 * time.Second
	}
	w := &Watcher{o: o, known: map[string]content{}}
	w.adopt()
	if o.Since {
		for path := range w.known {
			w.known[path] = content{1} // which no file has
		}
	}
	w.events, w.err = fsnotify.NewWatcher()
	return w
}

// Degraded returns why changes are noticed only every Options.Poll; nil if they are noticed at once.
func (w *Watcher) Degraded() error {
	if w.err == nil {
		return nil
	}
	return fmt.Errorf("watch: the system sends no events of changes, so the file is read every %v: %w", w.o.Poll, w.err)
}

// Close gives up a Watcher that does not run.
func (w *Watcher) Close() {
	if w.events != nil {
		_ = w.events.Close() // it is not used again
	}
}

// Run calls changed, one call after the other, whenever a content has changed, or a file has gone or come back.
// It returns when the context ends.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	defer w.Close()
	var signs chan fsnotify.Event
	var lost chan error
	if w.events != nil {
		signs, lost = w.events.Events, w.events.Errors
	}
	poll := time.NewTicker(w.o.Poll)
	defer poll.Stop()
	quiet := time.NewTimer(0) // fires at once, for changes since New
	defer quiet.Stop()
	var first time.Time // the first event since the file was read
	w.follow()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-signs:
			if !ok {
				signs = nil
				continue
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			quiet.Reset(min(w.o.Quiet, time.Until(first.Add(10*w.o.Quiet))))
			continue
		case _, ok := <-lost: // there were too many events
			if !ok {
				lost = nil
				continue
			}
		case <-quiet.C:
		case <-poll.C:
		}
		first = time.Time{}
		w.follow()
		switch w.look() {
		case settled:
			changed()
			w.follow()
			w.adopt()
		case changing:
			quiet.Reset(w.o.Quiet)
		case same:
		}
	}
}

// paths returns all files that are watched.
func (w *Watcher) paths() []string {
	var paths []string
	if w.o.Path != "" {
		paths = append(paths, w.o.Path)
	}
	if w.o.Others != nil {
		paths = append(paths, w.o.Others()...)
	}
	return paths
}

// outcome is what a look at the files found.
type outcome uint8

const (
	same     outcome = iota // no file has changed since the last report
	changing                // a file has changed, and may be changing still
	settled                 // a file has changed, and all files are as they were at the last look
)

// look reads all files.
func (w *Watcher) look() outcome {
	now := map[string]content{}
	changed := false
	for _, path := range w.paths() {
		now[path] = contentOf(path, w.o.Most)
		if before, known := w.known[path]; known && before != now[path] {
			changed = true
		}
	}
	switch {
	case !changed:
		w.known, w.latest = now, nil
		return same
	case !maps.Equal(w.latest, now):
		w.latest = now
		return changing
	default:
		w.known, w.latest = now, nil
		return settled
	}
}

// adopt reads the files that were named since the last look. It does not read the other files again, so that
// their changes are still reported.
func (w *Watcher) adopt() {
	for _, path := range w.paths() {
		if _, known := w.known[path]; !known {
			w.known[path] = contentOf(path, w.o.Most)
		}
	}
}

func contentOf(path string, most int64) (sum content) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		h := sha256.New()
		for _, name := range namesIn(path, 0) {
			fmt.Fprintf(h, "%q\n", name)
		}
		copy(sum[:], h.Sum(nil))
		return sum
	}
	f, err := os.Open(path)
	if err != nil {
		return sum
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, most)); err != nil {
		return sum
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

// maxDepth bounds the folders within a watched folder.
const maxDepth = 8

// namesIn returns the names in a folder, and in the folders in it.
func namesIn(folder string, depth int) (names []string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		names = append(names, path)
		if info, err := os.Stat(path); err == nil && info.IsDir() && depth < maxDepth {
			names = append(names, namesIn(path, depth+1)...)
		}
	}
	return names
}

// follow watches the folders on the current way to the files. A watched folder reports every file that is put
// there; a watched file does not report the file that replaces it.
func (w *Watcher) follow() {
	if w.events == nil {
		return
	}
	var folders []string
	for _, path := range w.paths() {
		folders = append(folders, foldersOf(path)...)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			folders = append(folders, path)
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	for _, old := range w.events.WatchList() {
		if !slices.Contains(folders, old) {
			_ = w.events.Remove(old) // it may be gone already
		}
	}
	for _, folder := range folders {
		// A folder that cannot be watched, such as one that does not exist yet, is polled.
		_ = w.events.Add(folder)
	}
}

// maxLinks bounds the symbolic links that are followed.
const maxLinks = 40

// foldersOf returns the folders that hold the file, and the links that lead to it.
func foldersOf(path string) (folders []string) {
	for range maxLinks {
		folder := filepath.Dir(path)
		// A folder may be a link, as ..data in ..data/sluice.yaml. Both the folder that it points to and the
		// link itself are watched.
		if target, err := filepath.EvalSymlinks(folder); err == nil && target != folder {
			folders = append(folders, target, filepath.Dir(folder))
		} else {
			folders = append(folders, folder)
		}
		// A link further up may be replaced as a whole.
		for up := folder; up != filepath.Dir(up); up = filepath.Dir(up) {
			if info, err := os.Lstat(up); err == nil && info.Mode()&os.ModeSymlink != 0 {
				folders = append(folders, filepath.Dir(up))
			}
		}
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(folder, target)
		}
		path = target
	}
	return folders
}
