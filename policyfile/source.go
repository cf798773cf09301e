package policyfile

import (
	"regexp"
	"strings"
	"unicode"
)

// maxLine bounds the lines that errors show.
const maxLine = 4096

// maxErrors bounds how many mistakes of a file are reported.
const maxErrors = 100

// source holds the positions of a file's settings, and collects its mistakes. The source of a
// File that a program made has no positions.
type source struct {
	name   string
	data   []byte // the text of the file
	lines  []string
	keys   map[string]Pos // the positions of the names of settings, by path
	values map[string]Pos // the positions of their values
	errs   Errors
	at     map[string]bool // the paths of mistakes, and of all settings around them
	broken map[string]bool // paths whose values could not be read
	// foreign says that the file is of github.com/envoyproxy/ratelimit. Settings may be null then, and texts may be
	// numbers.
	foreign bool
	// aliases are the settings of a foreign file, by the settings that were made from them.
	aliases  map[string]string
	warnings Errors // of a foreign file
}

// alias records from which setting of a foreign file another one, with all settings in it, was made.
func (s *source) alias(path, from string) {
	if s.aliases == nil {
		s.aliases = map[string]string{}
	}
	s.aliases[path] = from
}

// given returns the setting that the file has in place of another one.
func (s *source) given(path string) string {
	for p := path; p != "" && len(s.aliases) > 0; p = parent(p) {
		if from, ok := s.aliases[p]; ok {
			return from + path[len(p):]
		}
	}
	return path
}

// warn adds a warning at a setting of a foreign file.
func (s *source) warn(path, problem, suggestion string) {
	pos, ok := s.keys[path]
	if !ok {
		pos = s.find(path)
	}
	if len(s.warnings) < maxErrors {
		s.warnings = append(s.warnings, &Error{File: s.name, Pos: pos, Path: path, Problem: problem, Suggestion: suggestion, Source: s.line(pos.Line)})
	}
}

func newSource(name string, data []byte) *source {
	return &source{
		name: name, data: data, lines: strings.Split(string(data), "\n"),
		keys: map[string]Pos{}, values: map[string]Pos{}, at: map[string]bool{}, broken: map[string]bool{},
	}
}

// report adds a mistake at the value of a setting or, if the file lacks it, at
// the nearest setting around it.
func (s *source) report(path, problem, suggestion string) {
	s.reportAt(s.find(path), path, problem, suggestion)
}

// follow reports a mistake unless it could be a consequence of another mistake. The other mistake is in
// the same setting, in a setting inside it, or in a setting around it that could not be read.
func (s *source) follow(path, problem, suggestion string) {
	if s.at[path] {
		return
	}
	for p := path; p != ""; {
		if p = parent(p); s.broken[p] {
			return
		}
	}
	s.report(path, problem, suggestion)
}

func (s *source) reportAt(pos Pos, path, problem, suggestion string) {
	for p := path; ; p = parent(p) {
		s.at[p] = true
		if p == "" {
			break
		}
	}
	if s.full() {
		return
	}
	s.errs = append(s.errs, &Error{
		File: s.name, Pos: pos, Path: s.given(path), Problem: problem, Suggestion: suggestion, Source: s.line(pos.Line),
	})
}

// full reports whether no more mistakes are collected.
func (s *source) full() bool { return len(s.errs) > maxErrors }

// err returns the mistakes in their order, or nil.
func (s *source) err() error {
	if len(s.errs) == 0 {
		return nil
	}
	s.errs.sort(s.name)
	if s.full() {
		s.errs = s.errs[:maxErrors]
	}
	return s.errs
}

// find returns the position of a setting.
func (s *source) find(path string) Pos {
	for p := s.given(path); ; p = parent(p) {
		if pos, ok := s.values[p]; ok {
			return pos
		}
		if p == "" {
			return Pos{}
		}
	}
}

// has reports whether the file has a setting.
func (s *source) has(path string) bool {
	_, ok := s.keys[s.given(path)]
	return ok
}

// parent returns the path of the setting around another one.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// child returns the path of a setting within another one.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// secrets finds text that must not be shown: tokens, passwords, and text before the @ of URLs and
// addresses. It finds tokens and passwords even in misspelt settings, or instead of the name of a
// variable.
var secrets = regexp.MustCompile(`(?i)((?:tok|pa?s[sw]|pa?swor|pwd|auth|secr)[a-z]*(?:_env)?["']?[ \t]*:[ \t]*).+|(^|[ \t"',[])[^ \t"',[]+@`)

// secret reports whether the value of a setting must not be shown.
func secret(path string) bool {
	if path == "listen.auth" {
		return false // an address
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch strings.TrimSuffix(name, "_env") {
	case "token", "pass", "auth", "password", "secret", "key_secret":
		return true
	}
	return false
}

// line returns a line for an excerpt.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) || len(s.lines[n-1]) > maxLine {
		return ""
	}
	text := secrets.ReplaceAllString(strings.TrimRight(s.lines[n-1], "\r"), "${1}${2}***")
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
