package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

const (
	modulePath = "github.com/sluicehq/sluice"
	goVersion  = "1.25" // the oldest Go release every module supports
	toolsDir   = "tools"
)

// outside are the modules that go.work does not join, since no other module should get their dependencies.
// tools/lib.sh lists them too, and tools/test.sh the modules with tests.
var outside = []string{toolsDir, "tools/release", "bench/gubernator", "checks/chart", "checks/frameworks", "checks/ratelimit", "checks/traefik"}

// check returns one line for each departure from the house in the repository
// whose top folder is repo. Files are read whatever their build constraints.
func check(repo fs.FS, house []room) ([]string, error) {
	c := checker{repo: repo, house: house, reported: map[string]bool{}}
	if err := c.readWorkspace(); err != nil {
		return nil, err
	}
	if err := fs.WalkDir(repo, ".", c.visit); err != nil {
		return nil, err
	}
	return c.problems, nil
}

type checker struct {
	repo     fs.FS
	house    []room
	modules  []string // folders that go.work joins
	problems []string
	reported map[string]bool // unknown folders already named
}

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) readWorkspace() error {
	text, err := fs.ReadFile(c.repo, "go.work")
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return err
	}
	for _, use := range work.Use {
		c.modules = append(c.modules, path.Clean(use.Path))
	}
	return nil
}

func (c *checker) visit(name string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch {
	case entry.IsDir():
		// What the go command skips, and the program's own output.
		hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
		if hidden || base == "testdata" || base == "vendor" || name == "bin" {
			return fs.SkipDir
		}
	case base == "go.mod":
		return c.module(name)
	case strings.HasSuffix(base, ".go") && !within(name, toolsDir):
		return c.file(name)
	}
	return nil
}

// module checks one go.mod.
func (c *checker) module(name string) error {
	text, err := fs.ReadFile(c.repo, name)
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	if want := path.Join(modulePath, dir); mod.Module == nil || mod.Module.Mod.Path != want {
		c.report("%s: the module's path is not its folder: write module %s", name, want)
	}
	if mod.Go == nil || (mod.Go.Version != goVersion && !strings.HasPrefix(mod.Go.Version, goVersion+".")) {
		c.report("%s: every module supports Go %s: write go %s", name, goVersion, goVersion)
	}
	if mod.Toolchain != nil {
		c.report("%s: a toolchain line raises the version users need: delete it", name)
	}
	if !slices.Contains(outside, dir) && !slices.Contains(c.modules, dir) {
		c.report("%s: the module is not in go.work, so its tests are not run: go work use ./%s", name, dir)
	}
	if dir != "." {
		return nil
	}
	for _, r := range mod.Require {
		c.report("%s:%d: module 1 requires %s: it requires nothing; put code that needs a library into a module of its own",
			name, r.Syntax.Start.Line, r.Mod.Path)
	}
	for _, r := range mod.Replace {
		c.report("%s:%d: module 1 replaces %s: it requires nothing, so it has nothing to replace",
			name, r.Syntax.Start.Line, r.Old.Path)
	}
	for _, t := range mod.Tool {
		c.report("%s:%d: module 1 pins the tool %s: pin it in tools/go.mod",
			name, t.Syntax.Start.Line, t.Path)
	}
	return nil
}

// file checks the imports of one Go file.
func (c *checker) file(name string) error {
	dir := path.Dir(name)
	from, fromName := c.find(dir)
	if from == nil {
		if !c.reported[dir] {
			c.reported[dir] = true
			c.report("%s: the folder %s is in no room of the house: add its row to tools/importcheck/house.go", name, dir)
		}
		return nil
	}
	text, err := fs.ReadFile(c.repo, name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, text, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if remedy := c.judge(from, fromName, imported, strings.HasSuffix(name, "_test.go")); remedy != "" {
			c.report("%s:%d: %s imports %s: %s",
				name, files.Position(spec.Pos()).Line, path.Join(modulePath, dir), imported, remedy)
		}
	}
	return nil
}

// judge returns the remedy for an import that is not allowed, or "".
func (c *checker) judge(from *room, fromName, imported string, test bool) string {
	if imported != modulePath && !strings.HasPrefix(imported, modulePath+"/") {
		if c.moduleOf(fromName) == "." && strings.Contains(firstElement(imported), ".") {
			return "module 1 requires nothing, tests included; put code that needs a library into a module of its own"
		}
		return ""
	}
	target := "."
	if imported != modulePath {
		target = strings.TrimPrefix(imported, modulePath+"/")
	}
	to, toName := c.find(target)
	switch {
	case to == nil:
		return target + " is in no room of the house; add its row to tools/importcheck/house.go"
	case toName == fromName, slices.Contains(from.may, to.name), test && (to.name == soakRoom || slices.Contains(from.mayTests, to.name)):
		return ""
	case to.name == "checks":
		return checksRemedy
	case slices.Contains(stores, to.name):
		return storeRemedy
	}
	return from.remedy
}

// find returns the row for a folder and the name of the room it is in, which
// differs from the row's where that has a "*". The longest name wins, then one
// without a "*".
func (c *checker) find(dir string) (*room, string) {
	var best *room
	var bestName string
	for i := range c.house {
		r := &c.house[i]
		name, ok := match(r.name, dir)
		if ok && (best == nil || len(name) > len(bestName) || len(name) == len(bestName) && !strings.Contains(r.name, "*")) {
			best, bestName = r, name
		}
	}
	return best, bestName
}

// match reports whether dir lies in the room with this name, and the part of
// dir that is the room.
func match(name, dir string) (string, bool) {
	if name == domain {
		return dir, dir == domain // the folders below it are rooms of their own
	}
	want, have := strings.Split(name, "/"), strings.Split(dir, "/")
	if len(have) < len(want) {
		return "", false
	}
	for i, w := range want {
		if w != "*" && w != have[i] {
			return "", false
		}
	}
	return strings.Join(have[:len(want)], "/"), true
}

// moduleOf returns the folder of the module that a folder belongs to.
func (c *checker) moduleOf(dir string) string {
	for _, m := range c.modules {
		if m != "." && within(dir, m) {
			return m
		}
	}
	return "."
}

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

func firstElement(importPath string) string {
	first, _, _ := strings.Cut(importPath, "/")
	return first
}
