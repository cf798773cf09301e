package reader

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of a file. The parser's time grows with the square of these numbers, so
// they are checked before it runs.
const (
	// MaxFileSize is the most bytes of a file: some 25,000 rules.
	MaxFileSize = 4 << 20

	maxDepth = 40   // of values within values
	maxWidth = 4096 // settings of one mapping
)

// tree parses YAML into the tree of its only document; nil if there is a mistake.
func (s *Source) tree(data []byte) ast.Node {
	if !utf8.Valid(data) {
		line, column := 1, 1
		for rest := data; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				break
			}
			column++
			if r == '\n' {
				line, column = line+1, 1
			}
			rest = rest[n:]
		}
		s.ReportAt(Pos{line, column}, "", "this is not UTF-8", "save the file as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	tokens := lexer.Tokenize(string(data))
	if pos, problem := bounded(tokens); problem != "" {
		s.ReportAt(pos, "", problem, "")
		return nil
	}
	file, err := parse(tokens)
	if err != nil {
		s.syntax(err)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc == nil || doc.Body == nil:
		case root != nil:
			s.ReportAt(position(doc.Body), "", "there is a second document in the file", "give one, and remove the lines of ---")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		s.ReportAt(Pos{1, 1}, "", "the file is empty", s.Begin)
	}
	return root
}

// parse runs the parser, and turns its panics into errors.
func parse(tokens token.Tokens) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntax reports the parser's error about a file that is not YAML.
func (s *Source) syntax(err error) {
	var bad yaml.Error
	if !errors.As(err, &bad) {
		s.ReportAt(Pos{1, 1}, "", "this is not YAML: "+err.Error(), "")
		return
	}
	pos := Pos{1, 1}
	if t := bad.GetToken(); t != nil && t.Position != nil {
		pos = Pos{t.Position.Line, max(t.Position.Column, 1)}
	}
	if line := s.lines[min(pos.Line, len(s.lines))-1]; strings.Contains(bad.GetMessage(), "'\t'") || strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
		pos.Column = strings.IndexByte(line, '\t') + 1
		s.ReportAt(pos, "", "this line is indented with a tab, which YAML forbids", "write spaces")
		return
	}
	s.ReportAt(pos, "", "this is not YAML: "+bad.GetMessage(), yamlRemedy(bad.GetMessage()))
}

// yamlRemedy returns what probably corrects a mistake that the parser found.
func yamlRemedy(message string) string {
	for _, x := range []struct{ part, remedy string }{
		{"mapping value is not allowed", `put quotes around a text with ": " in it, and write each setting on a line of its own`},
		{"value is not allowed in this context", "begin the settings of one mapping in the same column"},
		{"non-map value", `write a setting as "name: value"`},
		{"flow mapping end", "close each { with }"},
		{"'{' character", "close each [ with ], and each { with }"},
		{"sequence end", "close each [ with ]"},
		{"must be specified", "put a comma between two values, and close each [ with ] and each { with }"},
		{"end character of", "close the quote, or put other quotes around a text that has it"},
	} {
		if strings.Contains(message, x.part) {
			return x.remedy
		}
	}
	return "compare the columns, brackets and quotes of this line and of the line before"
}

// bounded counts how deep and wide the tokens nest.
func bounded(tokens token.Tokens) (Pos, string) {
	type level struct{ column, keys int }
	var block []level // the levels of blocks, by the columns at which their values begin
	var flow []int    // the number of keys of each mapping or sequence in brackets
	marks := 0        // anchors, tags and the like in a row
	for _, t := range tokens {
		pos := Pos{t.Position.Line, max(t.Position.Column, 1)}
		marks++
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow = append(flow, 0)
		case token.MappingEndType, token.SequenceEndType:
			flow = flow[:max(len(flow)-1, 0)]
		case token.AnchorType, token.TagType, token.AliasType:
			if marks > maxDepth {
				return pos, fmt.Sprintf("there are more than %d anchors or tags in a row", maxDepth)
			}
			continue
		case token.MappingValueType, token.SequenceEntryType, token.MappingKeyType:
			if len(flow) > 0 {
				flow[len(flow)-1]++
				if flow[len(flow)-1] > maxWidth {
					return pos, fmt.Sprintf("there are more than %d settings in one mapping", maxWidth)
				}
				break
			}
			column := t.Position.Column
			if t.Type == token.MappingValueType && t.Prev != nil && t.Prev.Position.Line == t.Position.Line {
				column = t.Prev.Position.Column // the column of the key
			}
			for len(block) > 0 && block[len(block)-1].column > column {
				block = block[:len(block)-1]
			}
			if len(block) == 0 || block[len(block)-1].column < column {
				block = append(block, level{column: column})
			}
			top := &block[len(block)-1]
			if t.Type == token.MappingValueType {
				if top.keys++; top.keys > maxWidth {
					return pos, fmt.Sprintf("there are more than %d settings in one mapping", maxWidth)
				}
			}
		}
		if t.Type != token.StringType || t.Prev == nil || t.Prev.Type != token.AnchorType {
			marks = 0
		}
		if len(block)+len(flow) > maxDepth {
			return pos, fmt.Sprintf("values are nested more than %d deep", maxDepth)
		}
	}
	return Pos{}, ""
}

// position returns where a value begins.
func position(n ast.Node) Pos {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return position(n.Values[0])
		}
	case *ast.MappingValueNode:
		return position(n.Key)
	case *ast.AnchorNode:
		return position(n.Value)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Pos{t.Position.Line, max(t.Position.Column, 1)}
	}
	return Pos{1, 1}
}

// plain returns an entry of a list as the text that it is. In a list within braces, the parser takes
// 127.0.0.1:6379 for a mapping, although no space follows the colon. Other entries are returned
// as they are.
func plain(n ast.Node) ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return n
	}
	pair := m.Values[0]
	key, colon, value := pair.Key.GetToken(), pair.Start, pair.Value.GetToken()
	if !unquoted(pair.Key) || !unquoted(pair.Value) || colon == nil ||
		!follows(key, colon) || !follows(colon, value) {
		return n
	}
	text := *key
	text.Value = key.Value + ":" + value.Value
	return ast.String(&text)
}

// unquoted reports whether a node is a text or number without quotes.
func unquoted(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
	default:
		return false
	}
	t := n.GetToken().Type
	return t != token.SingleQuoteType && t != token.DoubleQuoteType
}

// follows reports whether nothing is between two tokens.
func follows(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}
