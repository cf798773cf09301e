package policyfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluicehq/sluice/policy"
)

// Load reads a file, and the other files that it names, which it looks for from the file's
// folder. If there is something wrong with what they say, the error is an Errors.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	return parseIn(path, data, filepath.Dir(path))
}

// Parse reads a file's content; name is what errors call it. It reads no other files: to name one
// by a path that is not absolute is a mistake here. If there is something wrong with it, the
// error is an Errors.
func Parse(name string, data []byte) (*File, error) { return parseIn(name, data, "") }

func parseIn(name string, data []byte, folder string) (*File, error) {
	s := newSource(name, data)
	root := s.tree(data)
	if root == nil {
		return nil, s.err()
	}
	f := Default()
	s.decode(root, f)
	f.source, f.included.folder = s, folder
	if !s.full() {
		f.check(s)
		f.compile(s)
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Policy compiles the file's rules. It returns no error for a file that Parse has
// returned and nobody has changed; otherwise the error is an Errors.
func (f *File) Policy() (*policy.Policy, error) {
	s := f.blank()
	p := f.compile(s)
	if err := s.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Validate checks a file that a program has made or changed, as Parse checks one
// that it has read. The error is an Errors.
func (f *File) Validate() error {
	s := f.blank()
	f.check(s)
	f.compile(s)
	return s.err()
}

// blank returns the source with its places and without mistakes.
func (f *File) blank() *source {
	if f.source == nil {
		return newSource("", nil)
	}
	s := *f.source
	s.errs, s.at, s.broken = nil, map[string]bool{}, map[string]bool{}
	return &s
}
