package policyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// EnvoyOptions say how the files of github.com/envoyproxy/ratelimit are read.
type EnvoyOptions struct {
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
	maxEnvoyFiles = 1000
	maxEnvoyDepth = 8 // of folders within folders
	maxEnvoySize  = 2 * reader.MaxFileSize
)

// LoadEnvoy reads the configuration of github.com/envoyproxy/ratelimit: all files of a folder and the folders in it
// whose names end in .yaml or .yml. Other files, and names that begin with a dot, are not read; File.Warnings names
// the former. The rules of the result
// do what the files say; all other settings are defaults. If the files have mistakes, the error is an Errors. Names of
// other files, such as a list of keys, begin at the folder.
func LoadEnvoy(folder string, o EnvoyOptions) (*File, error) {
	names, others, err := envoyFiles(folder, 0, o.Except)
	switch {
	case err != nil:
		return nil, fmt.Errorf("policyfile: %w", err)
	case len(names) == 0:
		return nil, fmt.Errorf("policyfile: %s has no file whose name ends in .yaml or .yml; give the folder of the configuration files", folder)
	case len(names) > maxEnvoyFiles:
		return nil, fmt.Errorf("policyfile: %s has %d files; the most is %d", folder, len(names), maxEnvoyFiles)
	}
	base, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	r := &envoyReader{options: o, domains: map[string]string{}, seen: map[string]map[string]bool{}}
	all := Default()
	all.source, all.included.folder = reader.New(folder, nil), base
	all.source.Imply("version") // files of the other server have none
	if len(others) > 0 {
		all.source.Warn("", fmt.Sprintf("%d files are not read, because their names end in neither .yaml nor .yml: %s", len(others), reader.Shorten(strings.Join(others, ", "))),
			"rename the files that have limits")
	}
	var errs Errors
	for _, name := range names {
		part, err := r.read(name, base)
		var bad Errors
		switch {
		case errors.As(err, &bad):
			errs = append(errs, bad...)
			continue
		case err != nil:
			return nil, fmt.Errorf("policyfile: %w", err)
		}
		all.Rules = append(all.Rules, part.Rules...)
		if domain := part.Domains[0]; !slices.Contains(all.Domains, domain) {
			all.Domains = append(all.Domains, domain)
		}
		all.parts = append(all.parts, part)
	}
	if len(errs) > 0 {
		return nil, errs[:min(len(errs), reader.MaxErrors)]
	}
	s := all.blank()
	all.compile(s)
	return all, s.Err()
}

// EnvoyFiles returns the files that LoadEnvoy reads in a folder. A program that reloads the folder should watch them, also while
// they have mistakes.
func EnvoyFiles(folder string) (names []string, err error) {
	names, _, err = envoyFiles(folder, 0, nil)
	return names, err
}

// envoyFiles returns the files of a folder, and of the folders in it, except one: the files to read, and others.
func envoyFiles(folder string, depth int, except os.FileInfo) (names, others []string, err error) {
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
		case info.IsDir() && depth < maxEnvoyDepth:
			inner, more, err := envoyFiles(path, depth+1, except)
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
func (r *envoyReader) read(name, folder string) (*File, error) {
	data, err := reader.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if r.size += len(data); r.size > maxEnvoySize {
		return nil, fmt.Errorf("the files up to %s have %d bytes; the most is %d; split the domains over several servers", name, r.size, maxEnvoySize)
	}
	return r.parse(name, data, folder)
}

// parse is read for the content of a file.
func (r *envoyReader) parse(name string, data []byte, folder string) (*File, error) {
	s := reader.New(name, data)
	s.Foreign, s.Begin = true, "begin with domain"
	var given envoyFile
	if !s.Decode(&given) || s.Full() {
		return nil, s.Err()
	}
	p := &envoyPart{envoyReader: r, Source: s, domain: given.Domain, file: Default()}
	p.file.source, p.file.included.folder, p.file.Domains = s, folder, []string{given.Domain}
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
		p.file.compile(s)
		p.file.checkEffects(s)
	}
	return p.file, s.Err()
}
