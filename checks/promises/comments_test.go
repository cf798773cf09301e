package promises

import (
	"go/ast"
	"go/doc"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommentsNameErrorsAndSafety: comments of functions name their errors, comments of types report whether a type is safe for concurrent
// use, and each field has a comment.
func TestCommentsNameErrorsAndSafety(t *testing.T) {
	for _, folder := range public {
		p := documented(t, folder)
		for _, f := range p.Funcs {
			checkErrors(t, folder+": "+f.Name, f.Decl.Type, f.Doc)
		}
		for _, typ := range p.Types {
			if !ast.IsExported(typ.Name) {
				continue
			}
			for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
				if ast.IsExported(f.Name) {
					checkErrors(t, folder+": "+typ.Name+"."+f.Name, f.Decl.Type, f.Doc)
				}
			}
			spec := typ.Decl.Specs[0].(*ast.TypeSpec)
			checkConcurrency(t, folder, typ, spec)
			switch x := spec.Type.(type) {
			case *ast.StructType:
				checkFields(t, folder+": "+typ.Name, x)
			case *ast.InterfaceType:
				checkMethods(t, folder+": "+typ.Name, typ.Doc, x)
			}
		}
	}
}

// saysErrors are the words with which comments say that and when a function returns an error.
var saysErrors = regexp.MustCompile(`(?i)\berrors?\b|\bErr[A-Z]|Error\b|\bfails?\b|shorthand for`)

// checkErrors: the comment of a function whose last result is an error names the errors. A method that returns the cause
// of an error does not fail.
func checkErrors(t *testing.T, name string, f *ast.FuncType, text string) {
	t.Helper()
	if f.Results == nil || strings.HasSuffix(name, ".Unwrap") {
		return
	}
	last, ok := f.Results.List[len(f.Results.List)-1].Type.(*ast.Ident)
	if ok && last.Name == "error" && !saysErrors.MatchString(text) {
		t.Errorf("%s returns an error; say which, and when", name)
	}
}

var saysConcurrency = regexp.MustCompile(`concurren|goroutine`)

// checkConcurrency: a type with a state, or that programs implement, says what may be called at once. Errors, options
// and other structs without hidden fields are plain values, as every type of another kind is.
func checkConcurrency(t *testing.T, folder string, typ *doc.Type, spec *ast.TypeSpec) {
	t.Helper()
	isError := slices.ContainsFunc(typ.Methods, func(f *doc.Func) bool { return f.Name == "Error" })
	text := typ.Doc
	switch x := spec.Type.(type) {
	case *ast.StructType:
		if isError || !x.Incomplete {
			return
		}
	case *ast.InterfaceType:
		for _, m := range x.Methods.List {
			text += m.Doc.Text()
		}
	default:
		return
	}
	if !saysConcurrency.MatchString(text) {
		t.Errorf("%s: %s has a state or methods of a program's own; say whether it is safe for concurrent use", folder, typ.Name)
	}
}

// checkFields: each field has a comment, or is below one that names it.
func checkFields(t *testing.T, name string, s *ast.StructType) {
	t.Helper()
	above := ""
	for _, f := range s.Fields.List {
		if f.Doc != nil {
			above = f.Doc.Text()
		}
		for _, n := range f.Names {
			if ast.IsExported(n.Name) && f.Doc == nil && f.Comment == nil && !regexp.MustCompile(`\b`+n.Name+`\b`).MatchString(above) {
				t.Errorf("%s.%s has no comment", name, n.Name)
			}
		}
	}
}

// checkMethods: the methods of an interface are functions. The comment of the interface may have the errors of all.
func checkMethods(t *testing.T, name, text string, i *ast.InterfaceType) {
	t.Helper()
	for _, m := range i.Methods.List {
		if f, ok := m.Type.(*ast.FuncType); ok {
			checkErrors(t, name+"."+m.Names[0].Name, f, text+m.Doc.Text())
		}
	}
}
