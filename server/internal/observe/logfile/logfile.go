// Package logfile appends lines to a file that another program may rotate.
package logfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/sluicehq/sluice/server/internal/writable"
)

// File is a file of lines. A line is written whole, in one call of the system. If the file was renamed or removed, the next
// line begins a new file of that name, so rotating it needs no signal. All methods are safe for concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	file *os.File    // nil for a stream
	info os.FileInfo // of file
	out  io.Writer   // nil until there is room for a file
	err  error       // of the last Write
	torn bool        // whether the last write ended within a line, as on a full disk
}

// The names of streams, in place of a path.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Open opens a file for appending, or makes one that only its owner and group can read. The paths Stdout and Stderr are
// the streams of the program. A pipe that nobody reads is an error. If the disk has no room for a new file, Write tries
// again.
func Open(path string) (*File, error) {
	f := &File{path: path}
	switch path {
	case Stdout:
		f.out = os.Stdout
	case Stderr:
		f.out = os.Stderr
	default:
		if err := f.open(); writable.Full(err) {
			f.err = err
		} else if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Check returns why Open would fail, without making or opening a file. It does not find that nobody reads a pipe.
func Check(path string) error {
	if path == Stdout || path == Stderr {
		return nil
	}
	if info, err := os.Stat(path); err == nil {
		if err := takesLines(path, info); err != nil {
			return err
		}
	}
	return writable.File(path)
}

// takesLines returns why lines cannot be appended to a file.
func takesLines(path string, info os.FileInfo) error {
	if m := info.Mode(); m.IsRegular() || m&os.ModeNamedPipe != 0 || m&os.ModeDevice != 0 {
		return nil
	}
	return fmt.Errorf("%s is not a file that lines can be appended to; give the path of a file", path)
}

func (f *File) open() error {
	// Opening a pipe waits for its reader, without O_NONBLOCK.
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%w: no program reads this pipe; start its reader first", err)
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if err := takesLines(f.path, info); err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.info, f.out = file, info, file
	return nil
}

// Write appends lines. If the path has another file, or none, it first opens the path again. If that fails, it appends
// to the earlier file, and returns the error, because nobody may look for that file any more. After a line that was cut
// off, it first begins a new line.
func (f *File) Write(lines []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err = f.write(lines)
	f.err = err
	return n, err
}

// Err returns why the last lines were not written; nil if they were.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *File) write(lines []byte) (int, error) {
	reopened := f.reopen()
	if f.out == nil {
		return 0, reopened
	}
	if f.torn {
		if _, err := io.WriteString(f.out, "\n"); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := f.out.Write(lines)
	if n > 0 {
		f.torn = lines[n-1] != '\n'
	}
	return n, errors.Join(reopened, err)
}

// reopen opens the path again if it has another file, or none.
func (f *File) reopen() error {
	switch {
	case f.out == nil:
		return f.open()
	case f.file == nil || !f.info.Mode().IsRegular():
		return nil
	}
	if now, err := os.Stat(f.path); err == nil && os.SameFile(now, f.info) {
		return nil
	}
	old := f.file
	if err := f.open(); err != nil {
		return err
	}
	f.torn = false
	_ = old.Close() // each line was written at once
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
