package policyfile

import (
	"errors"

	_ "github.com/goccy/go-yaml" // the parser
	"github.com/sluicehq/sluice/policy"
)

type source struct{}

// Load reads a file. If there is something wrong with what it says, the error is
// an Errors.
func Load(path string) (*File, error) { return nil, errors.New("policyfile: Load is not finished") }

// Parse reads a file's content; name is what errors call it. If there is
// something wrong with it, the error is an Errors.
func Parse(name string, data []byte) (*File, error) {
	return nil, errors.New("policyfile: Parse is not finished")
}

// Policy compiles the file's rules. It returns no error for a file that Parse has returned.
func (f *File) Policy() (*policy.Policy, error) {
	return nil, errors.New("policyfile: Policy is not finished")
}

// PolicyOptions returns the file's rules as the options of a policy.
func (f *File) PolicyOptions() (policy.Options, error) {
	return policy.Options{}, errors.New("policyfile: PolicyOptions is not finished")
}

// Default returns what an empty file would say: defaults, and no rules.
func Default() *File { return &File{} }
