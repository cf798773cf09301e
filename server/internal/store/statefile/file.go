// Package statefile keeps saved states in a file that survives crashes: a snapshot, and changes that
// are appended to it.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice/server/internal/writable"
)

// File is a file of saved states. Only one process at a time may have it open. Its methods are not safe for concurrent use.
type File struct {
	path     string
	lock     *os.File // nil until there is room for it
	current  *os.File // the file at path, open for appending; nil before the first Replace
	snapshot int64    // the size of the snapshot in it
	size     int64    // of the whole file, without what a failed write has left
	broken   bool     // changes cannot be appended any more
	// sync makes the content of a file durable; tests replace it.
	sync func(*os.File) error
}

// The ends of the names of files beside the file: its lock, a save that is under way, and files that were set aside.
const (
	LockSuffix    = ".lock"
	NewSuffix     = ".new"
	refusedSuffix = ".refused-"
)

const mode = 0o600 // the seeds of hashes are in the file

// ErrInUse means that another process has the file.
var ErrInUse = errors.New("another server has it; give each server a file of its own")

// Open takes the file at a path for this process. The file need not exist, but its folder must. If the disk has no room
// for the lock, the first Replace takes it: no other process can have made it meanwhile.
func Open(path string) (*File, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, sync: (*os.File).Sync}
	if err := f.take(); err != nil && !writable.Full(err) {
		return nil, err
	}
	return f, nil
}

// take takes the lock.
func (f *File) take() error {
	lock, err := os.OpenFile(f.path+LockSuffix, os.O_CREATE|os.O_RDWR, mode)
	if err != nil {
		return fmt.Errorf("%w; the server must be able to write in the folder %s", err, filepath.Dir(f.path))
	}
	if err := takeLock(lock); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.path, err), lock.Close())
	}
	f.lock = lock
	return nil
}

// resolve follows links, because a link would be replaced by the first save.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("%w; make the folder first", err)
		}
		return filepath.Join(folder, filepath.Base(path)), nil
	case err != nil:
		return "", err
	}
	info, err := os.Stat(target)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file; give the path of a file", target)
	}
	return target, nil
}

// Path returns the path without links.
func (f *File) Path() string { return f.path }

// Reader opens the file for reading. It returns fs.ErrNotExist if there is none.
func (f *File) Reader() (*os.File, error) { return os.Open(f.path) }

// SetAside renames a file that cannot be used, so that the next save does not replace it. It returns
// the new path.
func (f *File) SetAside(now time.Time) (string, error) {
	to := f.path + refusedSuffix + now.UTC().Format("20060102T150405.000Z")
	if err := os.Rename(f.path, to); err != nil {
		return "", err
	}
	return to, f.syncFolder()
}

// Replace calls write with a new file, and renames that file to the path in one step. After an error, the earlier file
// is still there.
func (f *File) Replace(write func(io.Writer) error) error {
	if f.lock == nil {
		if err := f.take(); err != nil {
			return err
		}
	}
	name := f.path + NewSuffix
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	w := &appender{file: next}
	if err := write(w); err != nil {
		return errors.Join(err, next.Close(), os.Remove(name))
	}
	f.broken = true // what was remembered as saved is in the new file
	if err := errors.Join(f.sync(next), next.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	if f.current != nil {
		_ = f.current.Close() // not every system renames a file to the name of an open one
		f.current = nil
	}
	if err := os.Rename(name, f.path); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	if f.current, err = os.OpenFile(f.path, os.O_WRONLY, 0); err != nil {
		return err
	}
	f.snapshot, f.size = w.at, w.at
	if err := f.syncFolder(); err != nil {
		return err
	}
	f.broken = false
	return nil
}

// CanAppend reports whether changes can be appended. Otherwise the next save must be a Replace: there is no file yet,
// an error has left its content unknown, or another program has changed it.
func (f *File) CanAppend() bool {
	if f.current == nil || f.broken {
		return false
	}
	ours, err1 := f.current.Stat()
	there, err2 := os.Lstat(f.path)
	return err1 == nil && err2 == nil && os.SameFile(ours, there) && there.Size() >= f.size
}

// ShouldCompact reports whether the changes are as large as the snapshot.
func (f *File) ShouldCompact() bool {
	const least = 1 << 20 // a small file need not be compacted all the time
	return f.size-f.snapshot > max(f.snapshot, least)
}

// Append calls write with a writer that appends to the file. Each call of Write appends all of its bytes, or none.
func (f *File) Append(write func(io.Writer) error) error {
	w := &appender{file: f.current, at: f.size}
	err := write(w)
	if w.broken {
		f.broken = true
	}
	if w.at == f.size {
		return err
	}
	f.size = w.at
	if syncErr := f.sync(f.current); syncErr != nil {
		f.broken = true // the system may have dropped any of the writes
		err = errors.Join(err, syncErr)
	}
	return err
}

// Size returns the size of the file.
func (f *File) Size() int64 { return f.size }

// Close closes the file and releases its lock. It removes nothing.
func (f *File) Close() error {
	var err error
	if f.current != nil {
		err = f.current.Close()
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close()) // the lock ends with its file
	}
	return err
}

// syncFolder makes a rename durable, where the system can do so.
func (f *File) syncFolder() error {
	folder, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return syncFolder(folder)
}

// appender writes at the end of a file.
type appender struct {
	file   *os.File
	at     int64
	broken bool
}

// Write writes all bytes, or removes the bytes that it has written.
func (a *appender) Write(p []byte) (int, error) {
	n, err := a.file.WriteAt(p, a.at)
	if err != nil {
		if a.file.Truncate(a.at) != nil {
			a.broken = true
		}
		return n, err
	}
	a.at += int64(n)
	return n, nil
}

// Check reports whether a server of this user could keep states at a path, without changing anything
// there. It returns the file for reading, or nil if there is none yet. It does not find that another process has the file.
func Check(path string) (*os.File, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	for _, err := range []error{writable.Folder(filepath.Dir(path)), writable.File(path + LockSuffix), writable.File(path + NewSuffix)} {
		if err != nil {
			return nil, err
		}
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}
