package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// A block is a text that is read in one go: a comment, a paragraph, a cell of a
// table, a message or a name.
type block struct {
	text  string
	first int   // the line it begins in
	ends  []int // for joined lines, the offset behind each of them
	name  bool  // whether it is a name, taken apart into words
}

func (b block) line(offset int) int {
	line := b.first
	for _, end := range b.ends {
		if offset < end {
			break
		}
		line++
	}
	return line
}

// join makes a block of lines that follow each other.
func join(first int, lines []string) block {
	var text strings.Builder
	b := block{first: first}
	for _, l := range lines {
		text.WriteString(l)
		text.WriteByte('\n')
		b.ends = append(b.ends, text.Len())
	}
	b.text = text.String()
	return b
}

// reader returns the function that finds the prose in a file with this name, or
// nil if the file has none.
func reader(name string) func(name, text string) ([]block, error) {
	switch path.Ext(name) {
	case ".go":
		return readGo
	case ".md":
		return readMarkdown
	case ".lua":
		return comments("--")
	case ".yaml", ".yml", ".sh", ".acl":
		return comments("#")
	case ".json":
		return readJSON
	}
	if base := path.Base(name); base == "Makefile" || base == "run" {
		return comments("#")
	}
	return nil
}

// readGo returns comments, strings that are sentences, and declared names.
func readGo(name, text string) ([]block, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	blocks := []block{{text: words(strings.TrimSuffix(path.Base(name), ".go")), first: 1, name: true}}
	for _, group := range file.Comments {
		var lines []string
		for _, c := range group.List {
			for line := range strings.Lines(c.Text) {
				line = strings.TrimRight(line, "\n")
				if strings.HasPrefix(line, "//go:") {
					line = ""
				}
				line = strings.TrimPrefix(line, "//")
				if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "   ") {
					line = "" // an indented block is code
				}
				lines = append(lines, strings.TrimPrefix(line, " "))
			}
		}
		blocks = append(blocks, join(files.Position(group.Pos()).Line, lines))
	}
	add := func(id *ast.Ident) {
		blocks = append(blocks, block{text: words(id.Name), first: files.Position(id.Pos()).Line, name: true})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				add(id)
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			s, err := strconv.Unquote(n.Value)
			if err == nil && strings.Contains(strings.TrimSpace(s), " ") {
				b := block{text: s, first: files.Position(n.Pos()).Line}
				if n.Value[0] == '`' {
					b = join(b.first, strings.Split(s, "\n"))
				}
				blocks = append(blocks, b)
			}
		}
		return true
	})
	return blocks, nil
}

// words takes a name apart: "TestLeaseInDoubt" and "lease_in_doubt" are "lease in
// doubt".
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == '_' || r == '-':
			b.WriteByte(' ')
		case unicode.IsUpper(r) && i > 0:
			b.WriteByte(' ')
			fallthrough
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return strings.TrimPrefix(b.String(), "test ")
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	listItem   = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
)

// readMarkdown returns paragraphs, items of lists, headings and cells of tables.
func readMarkdown(_, text string) ([]block, error) {
	var blocks []block
	var lines []string
	first := 1
	flush := func() {
		if len(lines) > 0 {
			b := join(first, lines)
			blank := func(s string) string {
				return strings.Map(func(r rune) rune {
					if r == '\n' {
						return r
					}
					return 'x'
				}, s)
			}
			plain := inlineCode.ReplaceAllStringFunc(b.text, blank)
			b.text = linkTarget.ReplaceAllStringFunc(plain, func(s string) string {
				return strings.ReplaceAll(strings.ReplaceAll(blank(s), "xx", "  "), "x", " ")
			})
			blocks = append(blocks, b)
		}
		lines = nil
	}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			flush()
			fenced = !fenced
			continue
		case fenced:
			continue
		case strings.TrimSpace(line) == "":
			flush()
			continue
		case strings.HasPrefix(line, "|"):
			flush()
			for cell := range strings.SplitSeq(line, "|") {
				first, lines = i+1, []string{strings.TrimSpace(cell)}
				flush()
			}
			continue
		case strings.HasPrefix(line, "#"):
			flush()
			first, lines = i+1, []string{strings.TrimLeft(line, "# ")}
			flush()
			continue
		}
		if item := listItem.FindString(line); item != "" {
			flush()
			line = line[len(item):]
		}
		if len(lines) == 0 {
			first = i + 1
		}
		lines = append(lines, strings.ReplaceAll(line, "**", ""))
	}
	flush()
	return blocks, nil
}

var quoted = regexp.MustCompile(`"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*'`)

// sentences returns the strings in a line that have several words.
func sentences(number int, line string) []block {
	var blocks []block
	for _, s := range quoted.FindAllString(line, -1) {
		if s = s[1 : len(s)-1]; strings.Contains(strings.TrimSpace(s), " ") {
			blocks = append(blocks, join(number, []string{s}))
		}
	}
	return blocks
}

// comments returns a reader for a language with comments to the end of the line,
// which finds these and the strings that are sentences.
func comments(mark string) func(name, text string) ([]block, error) {
	trailing := regexp.MustCompile(`\s(` + regexp.QuoteMeta(mark) + `)+\s`)
	return func(_, text string) ([]block, error) {
		var blocks []block
		var lines []string
		first := 0
		flush := func() {
			if len(lines) > 0 {
				blocks = append(blocks, join(first, lines))
			}
			lines = nil
		}
		for i, line := range strings.Split(text, "\n") {
			rest, found := strings.CutPrefix(strings.TrimSpace(line), mark)
			switch {
			case found && strings.HasPrefix(rest, ">"): // a step of an example
				flush()
			case found:
				if len(lines) == 0 {
					first = i + 1
				}
				lines = append(lines, strings.TrimSpace(rest))
			default:
				flush()
				if at := trailing.FindStringIndex(line); at != nil {
					blocks = append(blocks, join(i+1, []string{line[at[1]:]}))
				}
				blocks = append(blocks, sentences(i+1, line)...)
			}
		}
		flush()
		return blocks, nil
	}
}

// readJSON returns the strings that are sentences.
func readJSON(_, text string) ([]block, error) {
	var blocks []block
	for i, line := range strings.Split(text, "\n") {
		blocks = append(blocks, sentences(i+1, line)...)
	}
	return blocks, nil
}
