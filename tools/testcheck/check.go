package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// check returns what is wrong with the tests of a repository.
func check(repository fs.FS) (findings []string, err error) {
	places := map[string]string{} // of the tests, by name
	set := token.NewFileSet()
	err = fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(f.Name.Name) {
				continue
			}
			place := set.Position(f.Pos()).String()
			if other, taken := places[f.Name.Name]; taken {
				findings = append(findings, fmt.Sprintf("%s: %s is also in %s: give each test a name that says its promise", place, f.Name.Name, other))
			}
			places[f.Name.Name] = place
			if words(f.Name.Name) < 2 && (f.Doc == nil || strings.HasPrefix(f.Name.Name, "Test")) {
				findings = append(findings, fmt.Sprintf("%s: %s promises nothing: say its promise in the name", place, f.Name.Name))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.ExprStmt); ok && isWordless(s) {
				findings = append(findings, fmt.Sprintf("%s: a message has only values: say what was promised and what was seen", set.Position(s.Pos())))
			}
			return true
		})
		return nil
	})
	return findings, err
}

// isTest reports whether a function is a test or a fuzz target.
func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
}

// words returns the number of words in the name of a test.
func words(name string) (n int) {
	for _, c := range name[len("Test"):] {
		if unicode.IsUpper(c) {
			n++
		}
	}
	return n
}

// verbs matches the verbs of a format.
var verbs = regexp.MustCompile(`%[-+# 0]*[0-9.*]*[a-zA-Z%]`)

// isWordless reports whether a statement fails a test with values only: with a format of verbs, or with values and no error.
func isWordless(s *ast.ExprStmt) bool {
	c, ok := s.X.(*ast.CallExpr)
	if !ok || len(c.Args) == 0 {
		return false
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch f.Sel.Name {
	case "Errorf", "Fatalf":
		return isText(c.Args[0]) && !hasWords(c.Args[0])
	case "Error", "Fatal":
		return !slices.ContainsFunc(c.Args, hasWords)
	}
	return false
}

// isText reports whether an expression is the literal of a string.
func isText(x ast.Expr) bool {
	l, ok := x.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}

// hasWords reports whether an expression has a text with a letter beside its verbs, or the name of an error, which has words.
func hasWords(x ast.Expr) (has bool) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			has = has || isText(n) && strings.ContainsFunc(verbs.ReplaceAllString(unquoted(n.Value), ""), unicode.IsLetter)
		case *ast.Ident:
			name := strings.ToLower(n.Name)
			has = has || strings.HasSuffix(name, "err") || strings.HasSuffix(name, "error")
		}
		return true
	})
	return has
}

// unquoted returns the text of a literal.
func unquoted(literal string) string {
	text, _ := strconv.Unquote(literal)
	return text
}
