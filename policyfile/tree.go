package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What a file may hold. The parser's time grows with the square of these, so
// they are counted before it sees them.
const (
	// MaxFileSize is the most bytes of a file.
	MaxFileSize = 1 << 20

	maxDepth = 40   // of values within values
	maxWidth = 4096 // settings of one mapping
)

// tree parses YAML into the tree of its only document; nil if there is a mistake.
func (s *source) tree(data []byte) ast.Node {
	if len(data) > MaxFileSize {
		s.reportAt(Pos{}, "", fmt.Sprintf("the file has %d bytes; the most is %d", len(data), MaxFileSize), "split the rules over several servers, or shorten them")
		return nil
	}
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
		s.reportAt(Pos{line, column}, "", "this is no UTF-8", "save the file as UTF-8")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	tokens := lexer.Tokenize(string(data))
	if pos, problem := bounded(tokens); problem != "" {
		s.reportAt(pos, "", problem, "")
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
			s.reportAt(place(doc.Body), "", "there is a second document in the file", "give one, and no more lines of ---")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		s.reportAt(Pos{1, 1}, "", "the file is empty", `begin with "version: 1"`)
	}
	return root
}

// parse runs the parser. Whatever a file does to it, the program goes on.
func parse(tokens token.Tokens) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntax reports what the parser makes of a file that is no YAML.
func (s *source) syntax(err error) {
	var bad yaml.Error
	if !errors.As(err, &bad) {
		s.reportAt(Pos{1, 1}, "", "this is no YAML: "+err.Error(), "")
		return
	}
	pos := Pos{1, 1}
	if t := bad.GetToken(); t != nil && t.Position != nil {
		pos = Pos{t.Position.Line, max(t.Position.Column, 1)}
	}
	s.reportAt(pos, "", "this is no YAML: "+bad.GetMessage(), "")
}

// bounded counts how deep and wide the tokens nest.
func bounded(tokens token.Tokens) (Pos, string) {
	type level struct{ column, keys int }
	var block []level // of the block, by the columns at which its values begin
	var flow []int    // the keys of each mapping or sequence in brackets
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
				column = t.Prev.Position.Column // that of the key
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

// place returns where a value begins.
func place(n ast.Node) Pos {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return place(n.Values[0])
		}
	case *ast.MappingValueNode:
		return place(n.Key)
	case *ast.AnchorNode:
		return place(n.Value)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Pos{t.Position.Line, max(t.Position.Column, 1)}
	}
	return Pos{1, 1}
}

// plain returns the text that an entry of a list is, of which the parser has made a
// mapping: in a list within braces it takes the colon of 127.0.0.1:6379 for that of a
// setting, though no space follows. Other entries are returned as they are.
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
