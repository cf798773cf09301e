// Package rules has the settings of a file about rules. It makes a policy of them.
//
// Package policyfile reads only a [File]. server/internal/config embeds it, and reads the settings of a server too.
package rules

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// File are the settings at the top of a file that rules need.
type File struct {
	// IPv6Prefix is how many leading bits of an IPv6 address identify a client. Default: 64.
	IPv6Prefix int `yaml:"ipv6_prefix" unit:"bits"`
	// Paths holds how paths are cleaned before they are matched.
	Paths Paths `yaml:"paths"`
	// Default is what happens to a request that no rule matches. Default: allow.
	Default policy.Action `yaml:"default" oneof:"allow - - deny"`
	// OnStoreError applies to rules without their own on_store_error. It has no effect with the memory
	// store, which does not fail. With local, each server limits by itself; see store.redis.local. Default: allow.
	OnStoreError sluice.Fallback `yaml:"on_store_error" oneof:"- allow deny local"`
	// Shadow sets shadow for all rules: decisions are counted and explained, not enforced.
	// Default: false.
	Shadow bool `yaml:"shadow"`
	// Classes are kinds of traffic. Rules can match classes and reserve shares for them.
	Classes []Class `yaml:"classes"`
	// Plans are numbers of limits with a name, which requests and overrides can name. A plan has, by the names of
	// rules, their numbers as in overrides, as a list for several limits. A rule that a plan leaves out keeps its own
	// numbers. Default: none.
	Plans map[string]map[string][]Numbers `yaml:"plans"`
	// PlanFrom is what names the plan of a request: header:NAME, claim:NAME or attribute:NAME. For descriptors of
	// gateways it is descriptor:KEY; give both as a list. A header and a claim of a request to the proxy count only
	// from trusted_proxies. Default: only overrides name plans.
	PlanFrom []string `yaml:"plan_from"`
	// UnknownPlan is what counts for a request that names an unknown plan, or several: the rule's own numbers, or no
	// numbers at all. With deny, rules that plans have numbers for limit such a request. Default: rule.
	UnknownPlan string `yaml:"unknown_plan" oneof:"rule deny"`
	// Domains are domains of descriptors that exist even if no rule matches their descriptors, so that a gateway
	// can send limits of its own for them. Default: the domains of the rules.
	Domains []string `yaml:"domains"`
	// Rules are the policy. Every rule that matches a request must let it pass. Default: none.
	Rules []Rule `yaml:"rules" form:"list" null:"give rules, or write rules: [] for none"`

	source   *reader.Source
	included Included
	parts    []*File // the files of a folder; see Join
}

// Paths holds how paths are cleaned before they are matched.
type Paths struct {
	// IgnoreCase matches paths without regard to case, for services that route so. Default: false.
	IgnoreCase bool `yaml:"ignore_case"`
	// EncodedSlash is what the service takes %2F in a path for: part of its segment (keep), as Express and Go's
	// ServeMux, or a slash (decode), as nginx, Flask and hypercorn. With any, requests must pass the rules of all
	// such path variants. Default: any.
	EncodedSlash string `yaml:"encoded_slash" oneof:"any keep decode"`
	// StripParams removes what follows a semicolon in a segment. Default: false.
	StripParams bool `yaml:"strip_params"`
}

// Default returns a File with all defaults and no rules.
func Default() File {
	return File{IPv6Prefix: 64, Paths: Paths{EncodedSlash: "any"}, Default: policy.Allow, OnStoreError: sluice.FallbackAllow, UnknownPlan: "rule"}
}

// Root is a whole file: a struct that embeds a File.
type Root interface {
	// Content returns the embedded File, which implements this method.
	Content() *File
	// Check reports what is wrong with the settings, among them the rules.
	Check(s *reader.Source)
}

// Content returns f.
func (f *File) Content() *File { return f }

// Load reads a file, and the other files that it names, into f, which has the defaults. Relative paths begin at the
// file's folder. If a file has mistakes, the error is a [reader.Errors].
func Load(path string, f Root) error {
	data, err := reader.ReadFile(path)
	var bad reader.Errors
	switch {
	case errors.As(err, &bad):
		return bad
	case err != nil:
		return fmt.Errorf("policyfile: %w", err)
	}
	return ParseIn(path, data, Included{Folder: filepath.Dir(path)}, f)
}

// Parse is Load for the content of a file without a folder. A relative path of another file is a mistake here.
func Parse(name string, data []byte, f Root) error {
	if err := reader.CheckSize(name, data, strconv.Itoa(len(data))); err != nil {
		return err
	}
	return ParseIn(name, data, Included{}, f)
}

// ParseIn is Parse for text of any size, with the folder of the file, or with the other files that it names.
func ParseIn(name string, data []byte, in Included, f Root) error {
	s := reader.New(name, data)
	if !s.Decode(f) {
		return s.Err()
	}
	f.Content().Attach(s, in)
	if !s.Full() {
		f.Check(s)
	}
	return s.Err()
}

// Validate checks a file that a program made or changed, as Parse checks its content.
func Validate(f Root) error {
	s := f.Content().Blank()
	f.Check(s)
	return s.Err()
}

// CheckVersion checks the version of the format.
func CheckVersion(s *reader.Source, version int) {
	if s.Read() && !s.Has("version") {
		s.Follow("version", "is missing", `begin the file with "version: 1"`)
	}
	if version != 1 {
		s.Follow("version", fmt.Sprintf("is %d, and this program reads 1", version), "write version: 1")
	}
}

// Attach gives a File its source, and the files that it names.
func (f *File) Attach(s *reader.Source, in Included) { f.source, f.included = s, in }

// Join adds the rules and domains of a file of a folder. Mistakes and warnings about its rules have positions there.
func (f *File) Join(part *File) {
	f.Rules = append(f.Rules, part.Rules...)
	for _, domain := range part.Domains {
		if !slices.Contains(f.Domains, domain) {
			f.Domains = append(f.Domains, domain)
		}
	}
	f.parts = append(f.parts, part)
}

// Joined reports whether f is a folder of files.
func (f *File) Joined() bool { return len(f.parts) > 0 }

// Source returns the source that f was read from; nil for a File that a program made.
func (f *File) Source() *reader.Source { return f.source }

// Blank returns the source of f with its positions and without mistakes.
func (f *File) Blank() *reader.Source { return f.source.Blank() }

// Check implements Root for a file without other settings. It checks all settings of rules, and compiles them.
func (f *File) Check(s *reader.Source) {
	if f.IPv6Prefix < 1 || f.IPv6Prefix > 128 {
		s.Follow("ipv6_prefix", fmt.Sprintf("is %d", f.IPv6Prefix), "give 1 to 128; 64 is what one customer usually holds")
	}
	f.compile(s)
	f.checkEffects(s)
}

// Policy compiles the rules of the file. It returns no error for a File that Load or Parse has
// read and that has not changed since. Otherwise the error is a [reader.Errors].
func (f *File) Policy() (*policy.Policy, error) {
	s := f.Blank()
	p := f.compile(s)
	if err := s.Err(); err != nil {
		return nil, err
	}
	return p, nil
}
