package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// NamedFile is a file that a server uses.
type NamedFile struct {
	// Setting names the file, such as "audit.file" or "--last-good".
	Setting string
	// Path is where the file is. A relative path begins at the working directory. An empty path means no file.
	Path string
	// Written is true if the server writes the file.
	Written bool
}

// CheckWrites returns an error if the server would write a file that is also another file of this server: a log, the
// saved states, a certificate, a list, the configuration itself. The argument others has files that the server is given
// by other means, such as flags. Two paths are the same file if links lead both to it. The streams stdout and stderr,
// and devices such as /dev/null, may be written by several settings. The error is an Errors.
func (f *File) CheckWrites(others ...NamedFile) error {
	all := slices.Concat(f.namedFiles(), others)
	all = slices.DeleteFunc(all, func(n NamedFile) bool { return n.Path == "" })
	if !slices.ContainsFunc(all, func(n NamedFile) bool { return n.Written }) {
		return nil
	}
	var targets []target
	for _, n := range all {
		targets = append(targets, targetOf(n))
	}
	s := f.Blank()
	for i, a := range targets {
		for _, b := range targets[:i] {
			if (a.Written || b.Written) && a.Setting != b.Setting && a.same(b) {
				clash(s, a, b)
			}
		}
	}
	return s.Err()
}

// clash reports that two settings name one file. The mistake is at a setting that lets the server write it.
func clash(s *reader.Source, a, b target) {
	if !a.Written || b.Written && s.Has(b.Setting) && !s.Has(a.Setting) {
		a, b = b, a
	}
	problem := reader.Quote(a.Path) + " is the file of " + b.Setting + " too"
	remedy := "give each of them a file of its own, because the server writes to it"
	if !s.Has(a.Setting) {
		s.Add(&reader.Error{Path: a.Setting, Problem: problem, Suggestion: remedy})
		return
	}
	s.Follow(a.Setting, problem, remedy)
}

// namedFiles returns the files that the settings name, and the configuration itself.
func (f *File) namedFiles() (all []NamedFile) {
	add := func(setting, use, path string) {
		n := NamedFile{Setting: setting, Path: path, Written: use == "written"}
		switch {
		case n.Written && (path == "stdout" || path == "stderr"):
			return
		case use == "included":
			n.Path = f.Included().Path(path)
		}
		all = append(all, n)
	}
	rest := *f
	if f.Joined() {
		rest.Rules = nil // the files of a folder have other names for the settings of rules
		for _, path := range f.Files() {
			add("the configuration", "read", path)
		}
	} else if s := f.Source(); s != nil {
		add("the configuration", "read", s.Name)
	}
	reader.Paths(&rest, add)
	if f.Store.Redis == nil {
		beside := f.Store.Memory.Beside()
		for _, name := range slices.Sorted(maps.Keys(beside)) {
			add(name, "written", beside[name])
		}
	}
	return all
}

// target is where a file is.
type target struct {
	NamedFile
	real string // without links
	info os.FileInfo
}

func targetOf(n NamedFile) target {
	p := target{NamedFile: n, real: withoutLinks(n.Path)}
	if info, err := os.Stat(p.real); err == nil {
		p.info = info
	}
	return p
}

// same reports whether two targets are one file.
func (p target) same(q target) bool {
	if p.info != nil && p.info.Mode()&os.ModeCharDevice != 0 {
		return false
	}
	return p.real == q.real || p.info != nil && q.info != nil && os.SameFile(p.info, q.info)
}

// mostLinks bounds the links that lead to a file, as systems do.
const mostLinks = 40

// withoutLinks returns where a path leads. The file, and its folders, need not exist yet.
func withoutLinks(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path // the working directory is gone; nothing can be opened
	}
	for range mostLinks {
		if found, err := filepath.EvalSymlinks(path); err == nil || !errors.Is(err, os.ErrNotExist) {
			if err == nil {
				path = found
			}
			return path
		}
		folder := filepath.Dir(path)
		if folder == path {
			return path
		}
		folder = withoutLinks(folder)
		path = filepath.Join(folder, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(folder, target)
		}
	}
	return path
}
