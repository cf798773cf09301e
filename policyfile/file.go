package policyfile

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/internal/file/rules"
	"github.com/sluicehq/sluice/policy"
)

// File holds the rules of a file. It does not change.
// It is safe for concurrent use.
type File struct{ content content }

// content is what is read of a file.
type content struct {
	Version int `yaml:"version" remedy:"write version: 1"`
	rules.File
}

// ofServer are the settings at the top of a file that only the server uses.
var ofServer = strings.Fields(`store listen upstream trusted_proxies trust_marks headers header_names jitter http admin api log
	access_log tracing audit near_limit scale_out drain drain_timeout`)

// Ignored implements [reader.Ignorer].
func (*content) Ignored(name string) (problem, suggestion string) {
	if !slices.Contains(ofServer, name) {
		return "", ""
	}
	return "is a setting of the server, and was not read", "remove it, or run the file with sluice serve"
}

// Check implements [rules.Root].
func (c *content) Check(s *reader.Source) {
	rules.CheckVersion(s, c.Version)
	c.File.Check(s)
}

// Load reads a file and the other files that it names. Relative paths begin at the file's folder. It
// returns only a valid File. If a file has mistakes, the error is an Errors.
func Load(path string) (*File, error) {
	f := &File{content{File: rules.Default()}}
	if err := rules.Load(path, &f.content); err != nil {
		return nil, err
	}
	return f, nil
}

// Parse reads the content of a file. Errors show name as the name of the file. A relative path of
// another file is a mistake here, because there is no folder. Parse returns only a valid File. If the
// content has mistakes, the error is an Errors.
func Parse(name string, data []byte) (*File, error) {
	f := &File{content{File: rules.Default()}}
	if err := rules.Parse(name, data, &f.content); err != nil {
		return nil, err
	}
	return f, nil
}

// Policy returns the policy of the rules.
// The error is an Errors.
func (f *File) Policy() (*policy.Policy, error) { return f.content.Policy() }

// PolicyOptions returns the rules as the options of a policy. A program can add to them.
// The error is an Errors.
func (f *File) PolicyOptions() (policy.Options, error) { return f.content.PolicyOptions() }

// Files returns the paths of the other files that the file names: lists, overrides and
// answers. Load has read them. A program that watches the file for changes should watch them too.
func (f *File) Files() []string { return f.content.Files() }

// Warnings returns the settings that probably do not do what their author wants, and the settings of the server, which
// were not read. Each entry has its position.
func (f *File) Warnings() Errors {
	s, in := f.content.Blank(), rules.Deployment{MethodOverride: true, Proxies: true}
	f.content.Warn(s, in)
	return append(s.Mistakes(), f.content.Noted(in)...)
}

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of files, with the settings of the server, for editors. It has the type, default and
// description of each setting. A file that fulfills the schema can still have mistakes, which Parse finds.
func Schema() []byte { return slices.Clone(schema) }
