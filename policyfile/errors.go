package policyfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
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

// sort orders the mistakes: the mistakes of the file itself come before the mistakes of others.
func (es Errors) sort(name string) {
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

func quote(text string) string {
	return strconv.Quote(shorten(users.ReplaceAllString(text, "://***@")))
}

func quoteless(text string) string {
	q := quote(text)
	return q[1 : len(q)-1]
}

func shorten(text string) string {
	if r := []rune(text); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return text
}

// show names a value in an error, unless it is a secret.
func show(path string, n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		if secret(path) {
			return "a text"
		}
		text, _ := (&decoder{}).text(path, n)
		return "the text " + quote(text)
	default:
		if secret(path) {
			return "no text"
		}
		return quoteless(n.GetToken().Value)
	}
}

// didYouMean suggests the nearest word, or lists all words.
func didYouMean(word string, words []string) string {
	if w := nearest(word, words); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	if len(words) == 0 || len(words) > 30 {
		return ""
	}
	return "give " + oneOf(words)
}

// oneOf lists words as a choice.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Nearest returns the word that was most likely meant, without regard to case, or "" if none is near.
func Nearest(word string, words []string) string {
	lower := make([]string, len(words))
	for i, w := range words {
		lower[i] = strings.ToLower(w)
	}
	if i := slices.Index(lower, nearest(strings.ToLower(word), lower)); i >= 0 {
		return words[i]
	}
	return ""
}

// nearest returns the word that was most likely meant, or "".
func nearest(word string, words []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	if bound := "max_" + word; slices.Contains(words, bound) {
		return bound
	}
	best, least := "", len(plain(word))/3+1
	for _, w := range words {
		if d := distance(plain(word), plain(w)); d < least || d == least && best == "" && d <= len(plain(word))/3 {
			best, least = w, d
		}
	}
	if best != "" || len(word) < 2 {
		return best
	}
	// A longer word that begins and ends in the same way may have two mistakes.
	for _, w := range words {
		if len(word) > 4 && len(w) > 3 && word[0] == w[0] && word[len(word)-1] == w[len(w)-1] && distance(plain(word), plain(w)) == 2 {
			return w
		}
	}
	// Otherwise the only word that contains the given word, as "client_ip" contains "ip", or that
	// begins like it.
	for _, w := range words {
		if len(w) > 2 && len(word) > 2 && (strings.HasPrefix(word, w) || strings.HasPrefix(w, word)) || slices.Contains(strings.FieldsFunc(w, func(r rune) bool { return r == '_' || r == '-' }), strings.ToLower(word)) {
			if best != "" {
				return ""
			}
			best = w
		}
	}
	return best
}

// maxWord bounds the length of words that are compared.
const maxWord = 64

// distance returns how many letters must be inserted, removed, replaced or swapped with their
// neighbor to turn a into b.
func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return max(len(a), len(b))
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
