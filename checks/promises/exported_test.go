package promises

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the list of exported names")

// public are the folders that users import.
var public = []string{
	".", "bandwidth", "driver", "gate", "goredisstore", "grpclimit", "guard", "httplimit", "hybrid", "memory", "policy",
	"policyfile", "redisstore", "rueidisstore", "storetest",
}

// TestExportedNames: the list of exported names is the one in testdata. What is exported must stay after a release, so
// a new name is a decision: run the test with -update, and add a line to CHANGELOG.md.
func TestExportedNames(t *testing.T) {
	var all []string
	for _, folder := range public {
		for _, name := range exported(t, folder) {
			all = append(all, folder+" "+name)
		}
	}
	got := fmt.Sprintf("%d names, without methods and fields\n%s\n", len(all), strings.Join(all, "\n"))
	const file = "testdata/exported.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for _, name := range strings.Split(got, "\n") {
		if !slices.Contains(want, name) {
			t.Errorf("exported, and not in %s: %s", file, name)
		}
	}
	for _, name := range want {
		if !slices.Contains(strings.Split(got, "\n"), name) {
			t.Errorf("in %s, and not exported: %s", file, name)
		}
	}
}

// exported returns the names of types, functions, constants and variables that a folder's package exports.
func exported(t *testing.T, folder string) []string {
	t.Helper()
	p := documented(t, folder)
	var names []string
	add := func(all ...string) {
		for _, n := range all {
			if ast.IsExported(n) {
				names = append(names, n)
			}
		}
	}
	for _, v := range slices.Concat(p.Consts, p.Vars) {
		add(v.Names...)
	}
	for _, f := range p.Funcs {
		add(f.Name)
	}
	for _, typ := range p.Types {
		if !ast.IsExported(typ.Name) {
			continue
		}
		add(typ.Name)
		for _, v := range slices.Concat(typ.Consts, typ.Vars) {
			add(v.Names...)
		}
		for _, f := range typ.Funcs {
			add(f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// documented returns the documentation of a folder's package.
func documented(t *testing.T, folder string) *doc.Package {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no package: %v", folder, err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, "github.com/sluicehq/sluice/"+folder)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
