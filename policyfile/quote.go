package policyfile

import (
	"regexp"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// maxShown is how much of an offending text is shown.
const maxShown = 80

// users finds users in URLs, of which there may be a password.
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
