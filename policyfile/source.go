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

// source knows where the settings of a file stand, and collects its mistakes. The
// nil source is that of a File made by a program: it knows no places.
type source struct {
	name   string
	lines  []string
	keys   map[string]Pos // of each setting that is there, where its key is
	values map[string]Pos // and its value
	errs   Errors
	at     map[string]bool // paths that have mistakes, and all that lead to them
	broken map[string]bool // paths whose values could not be read
}

func newSource(name string, data []byte) *source {
	return &source{
		name: name, lines: strings.Split(string(data), "\n"),
		keys: map[string]Pos{}, values: map[string]Pos{}, at: map[string]bool{}, broken: map[string]bool{},
	}
}

// report adds a mistake at the value of a setting or, if that is not there, at
// the nearest one around it.
func (s *source) report(path, problem, suggestion string) {
	s.reportAt(s.find(path), path, problem, suggestion)
}

// follow reports a mistake unless it would be a consequence of another one: of the
// setting, of one inside it, or of one around it that could not be read.
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
		File: s.name, Pos: pos, Path: path, Problem: problem, Suggestion: suggestion, Source: s.line(pos.Line),
	})
}

// full reports whether there are more mistakes than are reported.
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

// find returns the place of a setting.
func (s *source) find(path string) Pos {
	for p := path; ; p = parent(p) {
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
	_, ok := s.keys[path]
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

// secrets finds what must not be shown: tokens and passwords, also misspelt and where
// the name of a variable belongs, and what is before the @ of URLs and addresses.
var secrets = regexp.MustCompile(`(?i)((?:tok|pa?s[sw]|pa?swor|pwd|auth|secr)[a-z]*(?:_env)?["']?[ \t]*:[ \t]*).+|(^|[ \t"',[])[^ \t"',[]+@`)

// secret reports whether the value of a setting must not be shown.
func secret(path string) bool {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch strings.TrimSuffix(name, "_env") {
	case "token", "pass", "auth", "password", "secret":
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
