// Package envoy makes rules of the configuration files of github.com/envoyproxy/ratelimit; see docs/adr/0040.
package envoy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
)

// Options say how the files of github.com/envoyproxy/ratelimit are read.
type Options struct {
	// MergeDomains lets several files add to one domain, as MERGE_DOMAIN_CONFIG does there.
	MergeDomains bool
	// Quota makes all limits quotas, as QUOTA_MODE does there.
	Quota bool
	// AllOrNone makes a denied call take nothing, somewhat as STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT does there. Otherwise
	// hits are always taken.
	AllOrNone bool
	// Except is a file that is not read although it is in the folder: the file that the result is written to. Nil for none.
	Except os.FileInfo
}

// The bounds of a folder of files.
const (
	maxFiles = 1000
	maxDepth = 8 // of folders within folders
	maxSize  = 2 * reader.MaxFileSize
)

// Load reads the configuration of github.com/envoyproxy/ratelimit: all files of a folder and the folders in it whose
// names end in .yaml or .yml. Other files, and names that begin with a dot, are not read; File.Warnings names the
// former. The rules of the result do what the files say; all other settings are defaults. If the files have mistakes,
// the error is a reader.Errors. Names of other files, such as a list of keys, begin at the folder.
func Load(folder string, o Options) (*rules.File, error) {
	names, others, err := list(folder, 0, o.Except)
	switch {
	case err != nil:
		return nil, fmt.Errorf("policyfile: %w", err)
	case len(names) == 0:
		return nil, fmt.Errorf("policyfile: %s has no file whose name ends in .yaml or .yml; give the folder of the configuration files", folder)
	case len(names) > maxFiles:
		return nil, fmt.Errorf("policyfile: %s has %d files; the most is %d", folder, len(names), maxFiles)
	}
	base, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	r := &importer{options: o, domains: map[string]string{}, seen: map[string]map[string]bool{}}
	all, s := rules.Default(), reader.New(folder, nil)
	all.Attach(s, rules.Included{Folder: base})
	if len(others) > 0 {
		s.Warn("", fmt.Sprintf("%s ignored, because the name ends in neither .yaml nor .yml: %s", reader.Count(len(others), "file"), reader.Shorten(strings.Join(others, ", "))),
			"rename the files that have limits")
	}
	var errs reader.Errors
	for _, name := range names {
		part, err := r.read(name, base)
		var bad reader.Errors
		switch {
		case errors.As(err, &bad):
			errs = append(errs, bad...)
			continue
		case err != nil:
			return nil, fmt.Errorf("policyfile: %w", err)
		}
		all.Join(part)
	}
	if len(errs) > 0 {
		return nil, errs[:min(len(errs), reader.MaxErrors)]
	}
	if err := rules.Validate(&all); err != nil {
		return nil, err
	}
	return &all, nil
}

// Files returns the files that Load reads in a folder. A program that reloads the folder should watch them, also while
// they have mistakes.
func Files(folder string) (names []string, err error) {
	names, _, err = list(folder, 0, nil)
	return names, err
}

// list returns the files of a folder, and of the folders in it, except one: the files to read, and others.
func list(folder string, depth int, except os.FileInfo) (names, others []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // Kubernetes keeps its own folders under such names
		}
		path := filepath.Join(folder, e.Name())
		info, err := os.Stat(path) // follows links
		if err != nil {
			return nil, nil, err
		}
		switch ext := strings.ToLower(filepath.Ext(path)); {
		case info.IsDir() && depth < maxDepth:
			inner, more, err := list(path, depth+1, except)
			if err != nil {
				return nil, nil, err
			}
			names, others = append(names, inner...), append(others, more...)
		case !info.Mode().IsRegular() || os.SameFile(info, except):
		case ext == ".yaml" || ext == ".yml":
			names = append(names, path)
		default:
			others = append(others, path)
		}
	}
	return names, others, nil
}

// read reads one file. Its rules are the part of the whole configuration that errors and warnings of the file are
// about.
func (r *importer) read(name, folder string) (*rules.File, error) {
	data, err := reader.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if r.size += len(data); r.size > maxSize {
		return nil, fmt.Errorf("the files up to %s have %d bytes; the most is %d; split the domains over several servers", name, r.size, maxSize)
	}
	return r.parse(name, data, folder)
}

// parse is read for the content of a file.
func (r *importer) parse(name string, data []byte, folder string) (*rules.File, error) {
	s := reader.New(name, data)
	s.Foreign, s.Begin = true, "begin with domain"
	var given file
	if !s.Decode(&given) || s.Full() {
		return nil, s.Err()
	}
	p := &part{importer: r, Source: s, domain: given.Domain}
	p.file = rules.Default()
	p.file.Attach(s, rules.Included{Folder: folder})
	p.file.Domains = []string{given.Domain}
	switch other := r.domains[given.Domain]; {
	case given.Domain == "":
		s.Follow("domain", "is missing", "begin the file with the domain that Envoy names")
		return nil, s.Err()
	case other != "" && !r.options.MergeDomains:
		s.Follow("domain", fmt.Sprintf("%s is the domain of %s too", reader.Quote(given.Domain), other), "put both into one file, or set MERGE_DOMAIN_CONFIG=true")
	}
	r.domains[given.Domain] = name
	for i := range given.Descriptors {
		p.add(&given.Descriptors[i], fmt.Sprintf("descriptors[%d]", i), nil)
	}
	if !s.Failed("") {
		p.file.Check(s)
	}
	return &p.file, s.Err()
}
