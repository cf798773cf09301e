package reader

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine bounds the lines that errors show.
const maxLine = 4096

// MaxErrors bounds how many mistakes of a file are reported.
const MaxErrors = 100

// Source holds the positions of a file's settings, and collects its mistakes. The source of settings that a program
// made has no positions.
type Source struct {
	// Name is the name of the file, as errors show it.
	Name string
	// Data is the text of the file.
	Data []byte
	// Begin says how a file begins, as the remedy for an empty one.
	Begin string
	// Foreign is true for a file of another program. Settings may be null then, and texts may be numbers.
	Foreign bool
	// Warnings are about settings that are valid; see Warn.
	Warnings Errors

	lines  []string
	keys   map[string]Pos // the positions of the names of settings, by path
	values map[string]Pos // the positions of their values
	errs   Errors
	at     map[string]bool // the paths of mistakes, and of all settings around them
	broken map[string]bool // paths whose values could not be read
	// aliases are the settings of a foreign file, by the settings that were made from them.
	aliases map[string]string
}

// New returns the source of a text. It is not read yet.
func New(name string, data []byte) *Source {
	return &Source{
		Name: name, Data: data, Begin: `begin with "version: 1"`, lines: strings.Split(string(data), "\n"),
		keys: map[string]Pos{}, values: map[string]Pos{}, at: map[string]bool{}, broken: map[string]bool{},
	}
}

// Blank returns the source with its positions and without mistakes. A nil source has no positions.
func (s *Source) Blank() *Source {
	if s == nil {
		return New("", nil)
	}
	blank := *s
	blank.errs, blank.at, blank.broken = nil, map[string]bool{}, map[string]bool{}
	blank.Warnings = slices.Clip(s.Warnings) // appending copies them
	return &blank
}

// Alias records from which setting of a foreign file another one, with all settings in it, was made.
func (s *Source) Alias(path, from string) {
	if s.aliases == nil {
		s.aliases = map[string]string{}
	}
	s.aliases[path] = from
}

// given returns the setting that the file has in place of another one.
func (s *Source) given(path string) string {
	for p := path; p != "" && len(s.aliases) > 0; p = Parent(p) {
		if from, ok := s.aliases[p]; ok {
			return from + path[len(p):]
		}
	}
	return path
}

// Warn adds a warning at a setting, such as of a foreign file.
func (s *Source) Warn(path, problem, suggestion string) {
	pos, ok := s.keys[path]
	if !ok {
		pos = s.Find(path)
	}
	s.AddWarning(&Error{File: s.Name, Pos: pos, Path: path, Problem: problem, Suggestion: suggestion, Source: s.Line(pos.Line)})
}

// AddWarning adds a warning, once for each position.
func (s *Source) AddWarning(e *Error) {
	known := slices.ContainsFunc(s.Warnings, func(w *Error) bool { return w.File == e.File && w.Pos == e.Pos && w.Path == e.Path })
	if !known && len(s.Warnings) < MaxErrors {
		s.Warnings = append(s.Warnings, e)
	}
}

// Report adds a mistake at the value of a setting or, if the file lacks it, at
// the nearest setting around it.
func (s *Source) Report(path, problem, suggestion string) {
	s.ReportAt(s.Find(path), path, problem, suggestion)
}

// ReportKey is Report at the name of the setting.
func (s *Source) ReportKey(path, problem, suggestion string) {
	pos, ok := s.keys[s.given(path)]
	if !ok {
		pos = s.Find(path)
	}
	s.ReportAt(pos, path, problem, suggestion)
}

// Follow reports a mistake unless it could be a consequence of another mistake. The other mistake is in
// the same setting, in a setting inside it, or in a setting around it that could not be read.
func (s *Source) Follow(path, problem, suggestion string) {
	if s.at[path] {
		return
	}
	for p := path; p != ""; {
		if p = Parent(p); s.broken[p] {
			return
		}
	}
	s.Report(path, problem, suggestion)
}

// FollowKey is Follow at the position of the setting's name.
func (s *Source) FollowKey(path, problem, suggestion string) {
	if _, ok := s.keys[s.given(path)]; ok && !s.at[path] {
		s.ReportKey(path, problem, suggestion)
		return
	}
	s.Follow(path, problem, suggestion)
}

// Idle reports a setting without an effect if the file, or the program that made it, gives the setting.
func (s *Source) Idle(path string, given bool, problem, suggestion string) {
	if given || s.Has(path) {
		s.FollowKey(path, problem, suggestion)
	}
}

// ReportAt adds a mistake at a position.
func (s *Source) ReportAt(pos Pos, path, problem, suggestion string) {
	for p := path; ; p = Parent(p) {
		s.at[p] = true
		if p == "" {
			break
		}
	}
	s.Add(&Error{File: s.Name, Pos: pos, Path: s.given(path), Problem: problem, Suggestion: suggestion, Source: s.Line(pos.Line)})
}

// Add adds a mistake that is not at a setting of the file.
func (s *Source) Add(e *Error) {
	if !s.Full() {
		s.errs = append(s.errs, e)
	}
}

// Full reports whether no more mistakes are collected.
func (s *Source) Full() bool { return len(s.errs) > MaxErrors }

// Failed reports whether there is a mistake in a setting or in a setting inside it. The path is empty for the whole file.
func (s *Source) Failed(path string) bool { return s.at[path] || path == "" && len(s.errs) > 0 }

// Mistakes returns the mistakes in their order; nil if there are none.
func (s *Source) Mistakes() Errors {
	s.errs.Sort(s.Name)
	return s.errs[:min(len(s.errs), MaxErrors)]
}

// Err returns the mistakes as an error.
func (s *Source) Err() error {
	if len(s.errs) == 0 {
		return nil
	}
	return s.Mistakes()
}

// Find returns the position of a setting.
func (s *Source) Find(path string) Pos {
	for p := s.given(path); ; p = Parent(p) {
		if pos, ok := s.values[p]; ok {
			return pos
		}
		if p == "" {
			return Pos{}
		}
	}
}

// Has reports whether the file has a setting.
func (s *Source) Has(path string) bool {
	_, ok := s.keys[s.given(path)]
	return ok
}

// Read reports whether settings were read from the source.
func (s *Source) Read() bool { return len(s.values) > 0 }

// Locate adds the position of its setting to a mistake, and returns the mistake.
func (s *Source) Locate(e *Error) *Error {
	top := e.Path
	if end := strings.IndexAny(top, ".["); end >= 0 {
		top = top[:end]
	}
	e.File = s.Name
	if s.Has(top) {
		e.Pos = s.Find(e.Path)
		e.Path, e.Source = s.given(e.Path), s.Line(e.Pos.Line)
	}
	return e
}

// Parent returns the path of the setting around another one.
func Parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// Child returns the path of a setting within another one.
func Child(path, key string) string {
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
func secret(name string) bool {
	switch strings.TrimSuffix(name, "_env") {
	case "token", "read_token", "pass", "auth", "password", "secret", "key_secret":
		return true
	}
	return false
}

// Line returns a line for an excerpt.
func (s *Source) Line(n int) string {
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

// Within returns the position in the file of a line and column of a text. The text begins at pos: in
// quotes, without quotes, or as a block of lines.
func (s *Source) Within(pos Pos, text string, line, column int) Pos {
	lines := strings.Split(text, "\n")
	if pos.Line < 1 || pos.Line > len(s.lines) || line > len(lines) {
		return pos
	}
	first := []rune(s.lines[pos.Line-1])
	rest := string(first[min(max(pos.Column-1, 0), len(first)):])
	for quotes, start := range []string{lines[0], `"` + lines[0], "'" + lines[0]} {
		if line == 1 && strings.HasPrefix(rest, start) {
			return Pos{pos.Line, pos.Column + min(quotes, 1) + column - 1}
		}
	}
	if n := pos.Line + line; (strings.HasPrefix(rest, "|") || strings.HasPrefix(rest, ">")) && n <= len(s.lines) {
		if before, _, found := strings.Cut(s.lines[n-1], lines[line-1]); found {
			return Pos{n, utf8.RuneCountInString(before) + column}
		}
	}
	return pos
}
