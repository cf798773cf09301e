package rules

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// List holds keys and clients that a rule lets pass, or refuses, without its limits.
type List struct {
	// Key lists keys. If the rule's key has several parts, each entry is a list of their values. Default: none.
	Key [][]string `yaml:"key"`
	// KeyFile is a file of keys, one per line. Several parts are separated by commas, as CSV. Default: none.
	KeyFile string `yaml:"key_file" path:"included"`
	// ClientIP lists addresses and networks. Default: none.
	ClientIP []netip.Prefix `yaml:"client_ip"`
	// ClientIPFile is a file of addresses and networks, one per line. Text after # is a comment. Default: none.
	ClientIPFile string `yaml:"client_ip_file" path:"included"`
}

// build returns a list. Its name in the policy is "Allow" or "Deny".
func (l *List) build(f *File, s *reader.Source, path, name string, where *origins) (keys [][]string, networks []netip.Prefix) {
	if l == nil {
		return nil, nil
	}
	for i, key := range l.Key {
		keys = append(keys, key)
		where.add(name+"Keys", spot{path: fmt.Sprintf("%s.key[%d]", path, i)})
	}
	for i, p := range l.ClientIP {
		networks = append(networks, p)
		where.add(name+"IPs", spot{path: fmt.Sprintf("%s.client_ip[%d]", path, i)})
	}
	if setting := path + ".key_file"; l.KeyFile != "" || s.Has(setting) {
		f.rows(s, setting, l.KeyFile, func(at spot, row []string) bool {
			keys = append(keys, slices.Clone(row))
			where.add(name+"Keys", at)
			return true
		})
	}
	if setting := path + ".client_ip_file"; l.ClientIPFile != "" || s.Has(setting) {
		f.lines(s, setting, l.ClientIPFile, func(at spot, text string) {
			p, problem, suggestion := reader.ParsePrefix(text)
			if problem != "" {
				at.follow(s, reader.Quote(text)+" "+problem, suggestion)
				return
			}
			networks = append(networks, p)
			where.add(name+"IPs", at)
		})
	}
	return keys, networks
}

// lists fills in the lists of a rule.
func (r *Rule) lists(f *File, s *reader.Source, path string, p *policy.Rule, where *origins) {
	p.AllowKeys, p.AllowIPs = r.Allow.build(f, s, path+".allow", "Allow", where)
	p.DenyKeys, p.DenyIPs = r.Deny.build(f, s, path+".deny", "Deny", where)
}

// lines reads a file line by line, without comments and empty lines.
func (f *File) lines(s *reader.Source, setting, name string, each func(at spot, text string)) {
	file, ok := f.text(s, setting, name)
	if !ok {
		return
	}
	number := 0
	for line := range bytes.Lines(file.Data) {
		number++
		text, _, _ := strings.Cut(string(line), "#")
		before := len(text) - len(strings.TrimLeft(text, " \t"))
		if text = strings.TrimSpace(text); text != "" && !s.Full() {
			each(spot{path: setting, pos: reader.Pos{Line: number, Column: before + 1}, file: file.Path}, text)
		}
	}
}

// rows reads a file of comma-separated values, until each returns false. Lines that begin with a # are comments. The
// slice of a row is used for the next row too.
func (f *File) rows(s *reader.Source, setting, name string, each func(at spot, row []string) bool) {
	file, ok := f.text(s, setting, name)
	if !ok {
		return
	}
	r := csv.NewReader(bytes.NewReader(file.Data))
	r.Comment, r.FieldsPerRecord, r.ReuseRecord = '#', -1, true
	for !s.Full() {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			at := spot{path: setting, pos: reader.Pos{Line: bad.Line, Column: max(bad.Column, 1)}, file: file.Path}
			at.follow(s, "this line is not CSV: "+bad.Err.Error(), "put quotes around a value that has commas or quotes in it, and write these twice")
			return
		}
		line, column := r.FieldPos(0)
		if !each(spot{path: setting, pos: reader.Pos{Line: line, Column: column}, file: file.Path}, row) {
			return
		}
	}
}

// text returns a file that holds text.
func (f *File) text(s *reader.Source, setting, name string) (IncludedFile, bool) {
	file, ok := f.file(s, setting, name)
	if !ok {
		return file, false
	}
	file.Data = bytes.TrimPrefix(file.Data, []byte("\ufeff"))
	if !utf8.Valid(file.Data) {
		s.Follow(setting, reader.Quote(name)+" is not UTF-8", "save the file as UTF-8")
		return file, false
	}
	return file, true
}

// follow reports a mistake at a spot, as [reader.Source.Follow] does.
func (at spot) follow(s *reader.Source, problem, suggestion string) {
	if at.file == "" {
		s.Follow(at.path, problem, suggestion)
		return
	}
	// The line is not shown, because it may hold a client's key.
	s.Add(&reader.Error{File: at.file, Pos: at.pos, Path: at.path, Problem: problem, Suggestion: suggestion})
}

// MaxListSize bounds a list or an answer in a file of its own, in bytes.
const MaxListSize = 16 << 20

// Included are the other files that a file names. Each is read once, when the file is read.
type Included struct {
	// Folder is where relative paths begin; empty if there is none.
	Folder string
	// Files are the files by the names in the settings.
	Files map[string]IncludedFile
}

// IncludedFile is a file that was read.
type IncludedFile struct {
	Path    string
	Data    []byte
	problem string
}

// Included returns the other files that f names, as they were read.
func (f *File) Included() Included { return f.included }

// Files returns the paths of the other files that f names: lists, overrides and
// answers. Load has read them. A program that watches the file for changes should watch them too.
func (f *File) Files() []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(f.included.Files)) {
		paths = append(paths, f.included.Files[name].Path)
	}
	for _, part := range f.parts {
		paths = append(paths, part.source.Name)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// ChangedFiles returns the paths of the files of Files whose content differs between two loads of a configuration, or
// that only one of the loads has read.
func ChangedFiles(a, b *File) []string {
	paths := slices.Concat(a.Files(), b.Files())
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool {
		before, after := a.included.at(path), b.included.at(path)
		return before.Path == after.Path && bytes.Equal(before.Data, after.Data)
	})
}

// file returns another file by its name. If it cannot be read, ok is false, and the mistake
// is reported at the setting.
func (f *File) file(s *reader.Source, setting, name string) (file IncludedFile, ok bool) {
	if name == "" {
		s.Follow(setting, "is empty", "give the path of a file, relative to this one")
		return file, false
	}
	file, known := f.included.Files[name]
	if !known {
		file = f.included.read(name)
		if f.included.Files == nil {
			f.included.Files = map[string]IncludedFile{}
		}
		f.included.Files[name] = file
	}
	if file.problem != "" {
		s.Follow(setting, reader.Quote(name)+" "+file.problem, "give the path of a file, relative to this one")
	}
	return file, file.problem == ""
}

// Path returns where a file is.
func (in Included) Path(name string) string {
	if name == "" || filepath.IsAbs(name) || in.Folder == "" {
		return name
	}
	return filepath.Join(in.Folder, name)
}

// read reads a file.
func (in *Included) read(name string) (file IncludedFile) {
	if file.Path = in.Path(name); in.Folder == "" && !filepath.IsAbs(name) {
		file.problem = "is a relative path, and there is no folder: only Load has one"
		return file
	}
	info, err := os.Stat(file.Path)
	switch {
	case err != nil:
		file.problem = cause(err)
		return file
	case !info.Mode().IsRegular():
		file.problem = "is not a regular file"
		return file
	}
	f, err := os.Open(file.Path)
	if err != nil {
		file.problem = cause(err)
		return file
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size(), MaxListSize)+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, MaxListSize+1))
	file.Data = b.Bytes()
	switch {
	case err != nil:
		file.problem = cause(err)
	case len(file.Data) > MaxListSize:
		file.problem = fmt.Sprintf("has more than %d bytes", MaxListSize)
		file.Data = nil
	}
	return file
}

// cause returns why a file cannot be read, without its path.
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
