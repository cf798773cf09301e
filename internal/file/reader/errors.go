package reader

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pos is a position in a file. Both numbers begin at one. The zero Pos means no position, as
// in a File that was not parsed.
type Pos struct {
	Line, Column int
}

// Error is one mistake in a file.
type Error struct {
	// File is the file's name.
	File string
	// Pos is the position of the mistake.
	Pos Pos
	// Path is the faulty setting, such as "rules[0].limit.rate". It is empty for the file as a whole.
	Path string
	// Problem says what is wrong, and contains the faulty text.
	Problem string
	// Suggestion says what would be right. It may be empty.
	Suggestion string
	// Source is the line of the file, without secrets.
	Source string
}

// Error returns the mistake in one line: its position, what is wrong and what would be right.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Pos.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Pos.Line, e.Pos.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	if e.Suggestion != "" {
		b.WriteString("; " + e.Suggestion)
	}
	return b.String()
}

// How many characters of a line an excerpt shows, and how many of them are before the mistake.
const (
	excerptWidth  = 110
	excerptBefore = 60
)

// Excerpt returns the line of the file with a mark under the mistake, or "".
func (e *Error) Excerpt() string {
	if e.Source == "" {
		return ""
	}
	line, at := []rune(e.Source), max(e.Pos.Column-1, 0)
	at = min(at, len(line))
	if len(line) > excerptWidth {
		from := max(at-excerptBefore, 0)
		line, at = line[from:min(from+excerptWidth, len(line))], at-from
	}
	// The mark has the same indent as the line: tabs stay tabs.
	before := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(line[:at]))
	return fmt.Sprintf("%5d | %s\n      | %s^", e.Pos.Line, string(line), before)
}

// Errors are the mistakes of a file, in their order in the file, and then the mistakes of files that
// it names. There is at least one.
type Errors []*Error

// Error returns all mistakes, each with its excerpt.
func (es Errors) Error() string {
	var b strings.Builder
	for i, e := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
		if x := e.Excerpt(); x != "" {
			b.WriteString("\n" + x)
		}
	}
	return b.String()
}

// Unwrap returns the mistakes one by one.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// Sort orders the mistakes: the mistakes of the file with the name come before the mistakes of others.
func (es Errors) Sort(name string) {
	slices.SortStableFunc(es, func(a, b *Error) int {
		if (a.File == name) != (b.File == name) {
			return map[bool]int{true: -1, false: 1}[a.File == name]
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// maxShown is how many characters of a faulty text are shown.
const maxShown = 80

// users finds users in URLs, because they may contain a password.
var users = regexp.MustCompile(`://.*@`)

// Quote returns a text in quotes, shortened and without the users of URLs.
func Quote(text string) string {
	return strconv.Quote(Shorten(users.ReplaceAllString(text, "://***@")))
}

func quoteless(text string) string {
	q := Quote(text)
	return q[1 : len(q)-1]
}

// Count writes a number of things.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Shorten returns a text with at most 80 characters.
func Shorten(text string) string {
	if r := []rune(text); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return text
}
