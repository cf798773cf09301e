package secret

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Files are the files of certificates and tokens in use, which are read again when they change. The zero Files are
// ready to use. All methods are safe for concurrent use.
type Files struct {
	mu  sync.Mutex
	all []*content
	// applied and refused count changes of files.
	applied, refused uint64
}

// content is what was read from files.
type content struct {
	what   string   // such as "the certificate of the proxy listener"
	files  []string // where it was read from
	read   func() error
	sum    [sha256.Size]byte // of the files, as they were read last
	failed bool              // whether the current files are refused
}

// Read reads something from files for the first time, and again when Refresh finds that they have changed. Empty names
// are left out.
func (f *Files) Read(what string, files []string, read func() error) error {
	files = slices.DeleteFunc(files, func(name string) bool { return name == "" })
	sum := hashFiles(files) // before they are read, so that a change meanwhile is noticed later
	if err := read(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, &content{what: what, files: files, read: read, sum: sum})
	return nil
}

// Names returns the names of the files.
func (f *Files) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, c := range f.all {
		names = append(names, c.files...)
	}
	return names
}

// Refresh reads files again if they have changed. What cannot be read stays as it was. The function changed is called
// for each change, with the error if it is refused.
func (f *Files) Refresh(changed func(what string, err error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, c := range f.all {
		sum := hashFiles(c.files)
		if sum == c.sum {
			continue
		}
		c.sum = sum
		err := c.read()
		if c.failed = err != nil; c.failed {
			f.refused++
		} else {
			f.applied++
		}
		changed(c.what, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Stats returns how many changes were applied and refused, and how many of Read's current files are refused.
func (f *Files) Stats() (applied, refused uint64, failing int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.all {
		if c.failed {
			failing++
		}
	}
	return f.applied, f.refused, failing
}

// hashFiles returns a hash of the contents of files. A file that cannot be read is hashed as an empty one; the
// error is for the reader of the files.
func hashFiles(files []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range files {
		text, err := ReadFile(file)
		fmt.Fprintf(h, "%t %d\n", err == nil, len(text))
		h.Write(text)
	}
	h.Sum(sum[:0])
	return sum
}
