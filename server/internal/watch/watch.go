// Package watch says when the content of a file, or of others that it names, has changed,
// however it was put there: written in place, renamed over, or by turning a symbolic link to
// another folder, as Kubernetes does with what it mounts.
package watch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options say how a file is watched.
type Options struct {
	// Path is the file. Required.
	Path string
	// Others returns the files that it names, which are watched too; their changes count from
	// when they are named. It is called after each change. Default: none.
	Others func() []string
	// Most is how many bytes of each are looked at. Required.
	Most int64
	// Quiet is how long nothing may happen around the file before it is read, and
	// at most ten times so much after the first sign. Default: 100 ms.
	Quiet time.Duration
	// Poll is how often it is read without any sign: not all file systems give signs, nor do
	// all of the ways on which a file is reached. Default: 10 s.
	Poll time.Duration
}

// Watcher watches a file. Make it with New and use it with Run, once.
type Watcher struct {
	o      Options
	known  map[string]content
	events *fsnotify.Watcher // nil if the system has none
	err    error             // why
}

// content is the hash of what a file holds; zero if it cannot be read.
type content [sha256.Size]byte

// New looks at the file as it is now: Run tells of changes since then. So a
// program makes its Watcher before it reads the file.
func New(o Options) *Watcher {
	if o.Quiet == 0 {
		o.Quiet = 100 * time.Millisecond
	}
	if o.Poll == 0 {
		o.Poll = 10 * time.Second
	}
	w := &Watcher{o: o, known: map[string]content{o.Path: contentOf(o.Path, o.Most)}}
	w.events, w.err = fsnotify.NewWatcher()
	return w
}

// Degraded says why changes are seen only every Options.Poll; nil if they are seen at once.
func (w *Watcher) Degraded() error {
	if w.err == nil {
		return nil
	}
	return fmt.Errorf("watch: the system gives no signs of changes, so the file is read every %v: %w", w.o.Poll, w.err)
}

// Close gives up a Watcher that does not run.
func (w *Watcher) Close() {
	if w.events != nil {
		_ = w.events.Close() // it is not used again
	}
}

// Run calls changed, one call after the other, whenever the content is another one than before, or the
// file has gone or come back. It returns when the context ends.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	defer w.Close()
	var signs chan fsnotify.Event
	var lost chan error
	if w.events != nil {
		signs, lost = w.events.Events, w.events.Errors
	}
	poll := time.NewTicker(w.o.Poll)
	defer poll.Stop()
	quiet := time.NewTimer(0) // what happened since New
	defer quiet.Stop()
	var first time.Time // the first sign since the file was read
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
		case _, ok := <-lost: // there were too many signs
			if !ok {
				lost = nil
				continue
			}
		case <-quiet.C:
		case <-poll.C:
		}
		first = time.Time{}
		w.follow()
		if w.look() {
			changed()
			w.follow()
			w.adopt()
		}
	}
}

// paths returns all files that are watched.
func (w *Watcher) paths() []string {
	paths := []string{w.o.Path}
	if w.o.Others != nil {
		paths = append(paths, w.o.Others()...)
	}
	return paths
}

// look reads all files, and reports whether one that was read before has changed.
func (w *Watcher) look() (changed bool) {
	now := map[string]content{}
	for _, path := range w.paths() {
		now[path] = contentOf(path, w.o.Most)
		if before, known := w.known[path]; known && before != now[path] {
			changed = true
		}
	}
	w.known = now
	return changed
}

// adopt reads the files that are named since the last look. Of the others it knows nothing new:
// what has changed of them meanwhile is still to be told.
func (w *Watcher) adopt() {
	for _, path := range w.paths() {
		if _, known := w.known[path]; !known {
			w.known[path] = contentOf(path, w.o.Most)
		}
	}
}

func contentOf(path string, most int64) (sum content) {
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

// follow watches the folders on the way to the files as it leads now: a folder that
// is watched tells of all that is put there, and a file that is watched tells nothing of what takes
// its place.
func (w *Watcher) follow() {
	if w.events == nil {
		return
	}
	var folders []string
	for _, path := range w.paths() {
		folders = append(folders, foldersOf(path)...)
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	for _, old := range w.events.WatchList() {
		if !slices.Contains(folders, old) {
			_ = w.events.Remove(old) // it may have gone by itself
		}
	}
	for _, folder := range folders {
		// What cannot be watched, such as a folder that is not there yet, is looked at by polling.
		_ = w.events.Add(folder)
	}
}

// maxLinks bounds the symbolic links that are followed.
const maxLinks = 40

// foldersOf returns the folders that hold the file, and the links that lead to it.
func foldersOf(path string) (folders []string) {
	for range maxLinks {
		folder := filepath.Dir(path)
		// A folder may be a link: of ..data/sluice.yaml, ..data is one. What is watched
		// is where it leads now, and whether it leads elsewhere.
		if target, err := filepath.EvalSymlinks(folder); err == nil && target != folder {
			folders = append(folders, target, filepath.Dir(folder))
		} else {
			folders = append(folders, folder)
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
