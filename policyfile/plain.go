package policyfile

import (
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

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
