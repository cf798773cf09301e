package policyfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// MaxListSize is the most bytes of a list or an answer in a file of its own.
const MaxListSize = 16 << 20

// included are the other files that a file names. They are read once, by who reads the file.
type included struct {
	folder string // empty if there is none
	files  map[string]includedFile
}

type includedFile struct {
	path    string
	data    []byte
	problem string
}

// Files returns the paths of the other files that f names: lists, overrides and
// answers. Load has read them, and whoever looks for changes should look at them too.
func (f *File) Files() []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(f.included.files)) {
		paths = append(paths, f.included.files[name].path)
	}
	return slices.Compact(paths)
}

// file returns another file by its name; ok is false if there is a mistake, which
// is reported at the setting.
func (f *File) file(s *source, setting, name string) (file includedFile, ok bool) {
	if name == "" {
		s.follow(setting, "names no file", "give the path of one, seen from this file")
		return file, false
	}
	file, known := f.included.files[name]
	if !known {
		file = f.included.read(name)
		if f.included.files == nil {
			f.included.files = map[string]includedFile{}
		}
		f.included.files[name] = file
	}
	if file.problem != "" {
		s.follow(setting, quote(name)+" "+file.problem, "give the path of a file, seen from this one")
	}
	return file, file.problem == ""
}

// read reads a file.
func (in *included) read(name string) (file includedFile) {
	file.path = name
	if !filepath.IsAbs(name) {
		if in.folder == "" {
			file.problem = "is seen from the file's folder, and there is none: it is no file that Load has read"
			return file
		}
		file.path = filepath.Join(in.folder, name)
	}
	info, err := os.Stat(file.path)
	switch {
	case err != nil:
		file.problem = cause(err)
		return file
	case !info.Mode().IsRegular():
		file.problem = "is no file"
		return file
	}
	f, err := os.Open(file.path)
	if err != nil {
		file.problem = cause(err)
		return file
	}
	defer f.Close()
	file.data, err = io.ReadAll(io.LimitReader(f, MaxListSize+1))
	switch {
	case err != nil:
		file.problem = cause(err)
	case len(file.data) > MaxListSize:
		file.problem = fmt.Sprintf("has more than %d bytes", MaxListSize)
		file.data = nil
	}
	return file
}

// cause says why a file cannot be read, without its path.
func cause(err error) string {
	var bad *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is not there"
	case errors.As(err, &bad):
		return "cannot be read: " + bad.Err.Error()
	default:
		return "cannot be read: " + err.Error()
	}
}
