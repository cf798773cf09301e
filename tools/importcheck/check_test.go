package main

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// repository returns a small repository in order, with these files added.
func repository(files map[string]string) fstest.MapFS {
	repo := fstest.MapFS{}
	for name, text := range map[string]string{
		"go.work":           "go 1.25\n\nuse (\n\t.\n\t./checks\n\t./policyfile\n\t./server\n)\n",
		"go.mod":            "module github.com/sluicehq/sluice\n\ngo 1.25\n",
		"checks/go.mod":     "module github.com/sluicehq/sluice/checks\n\ngo 1.25.0\n",
		"policyfile/go.mod": "module github.com/sluicehq/sluice/policyfile\n\ngo 1.25\n",
		"server/go.mod":     "module github.com/sluicehq/sluice/server\n\ngo 1.25\n",
		"tools/go.mod":      "module github.com/sluicehq/sluice/tools\n\ngo 1.25\n",
	} {
		repo[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range files {
		repo[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return repo
}

// source returns a Go file that imports these packages; "~" is module 1's path.
func source(imports ...string) string {
	var b strings.Builder
	b.WriteString("package p\n")
	for _, path := range imports {
		b.WriteString("import _ \"" + strings.Replace(path, "~", modulePath, 1) + "\"\n")
	}
	return b.String()
}

// Each import that the table does not permit is reported with its remedy.
func TestForbiddenImportsHaveRemedies(t *testing.T) {
	const unit, none = "github.com/sluicehq/sluice", ""
	for _, tc := range []struct {
		file    string
		imports string
		want    string // part of the one line reported; "" when allowed
	}{
		{"limit.go", "~/internal/algo", none},
		{"limit.go", "time", none},
		{"limit.go", "~/memory", "limit.go:2: " + unit + " imports " + unit + "/memory: only server/internal/store"},
		{"limit.go", "~/policy", "the domain imports algo only"},
		{"limit.go", "gopkg.in/yaml.v3", "module 1 requires nothing"},
		{"limit_test.go", "gopkg.in/yaml.v3", "module 1 requires nothing"},
		{"example_test.go", "~/memory", none},
		{"limit_test.go", "~/internal/soak", none},
		{"limit.go", "~/internal/soak", "the domain imports algo only"},
		{"internal/algo/bucket.go", "~", "internal/algo/bucket.go:2: " + unit + "/internal/algo imports " + unit + ": algo is pure"},
		{"internal/algo/bucket_test.go", "~", none},
		{"internal/algo/bucket.go", "~/internal/oracle", "algo is pure"},
		{"internal/algo/bucket_test.go", "~/internal/oracle", none},
		{"internal/oracle/bucket.go", "math/big", none},
		{"internal/oracle/bucket.go", "~/internal/algo", "must not use the code"},
		{"internal/oracle/bucket_test.go", "~/internal/algo", "must not use the code"},
		{"internal/oracle/bucket_test.go", "~", "must not use the code"},
		{"memory/store.go", "~/internal/oracle", "a store imports the domain"},
		{"checks/laws/laws_test.go", "~/internal/oracle", none},
		{"memory/store.go", "~", none},
		{"memory/store.go", "~/internal/algo", none},
		{"memory/store.go", "~/storetest", "a store imports the domain"},
		{"memory/store_test.go", "~/storetest", none},
		{"memory/internal/table/t.go", "~/memory/internal/slab", none},
		{"storetest/run.go", "~/memory", "take a sluice.Store"},
		{"policy/rule.go", "~/gate", "policy decides"},
		{"gate/gate.go", "~/policy", none},
		{"httplimit/mw.go", "~/gate", none},
		{"httplimit/mw.go", "~/guard", "take a sluice.Store"},
		{"examples/basic/main.go", "~/memory", none},
		{"examples/basic/main.go", "~/server/internal/app", "an example uses the library only"},
		{"policyfile/parse.go", "gopkg.in/yaml.v3", none},
		{"policyfile/parse.go", "~/memory", "take a sluice.Store"},
		{"server/cmd/sluice/main.go", "~/server/internal/cli", none},
		{"server/cmd/sluice/main.go", "~/server/internal/app", "main only calls cli"},
		{"server/internal/cli/serve.go", "~/server/internal/app", none},
		{"server/internal/app/app.go", "~/server/internal/edge/proxy", none},
		{"server/internal/app/app.go", "~/memory", "only server/internal/store"},
		{"server/internal/store/store.go", "~/memory", none},
		{"server/internal/app/app.go", "~/server/internal/cli", "app is below cli"},
		{"server/internal/edge/proxy/p.go", "~/httplimit", none},
		{"server/internal/edge/proxy/p.go", "~/server/internal/edge/proxy/pool", none},
		{"server/internal/edge/proxy/p.go", "~/server/internal/edge/api", "an edge imports no other edge"},
		{"server/internal/edge/proxy/p_test.go", "~/server/internal/edge/api", "an edge imports no other edge"},
		{"server/internal/edge/proxy/p.go", "~/server/internal/app", "an edge imports no other edge"},
		{"server/internal/edge/proxy/p.go", "~/memory", "only server/internal/store"},
		{"server/internal/edge/proxy/p_test.go", "~/memory", none},
		{"checks/laws_test.go", "~/memory", none},
		{"storetest/run.go", "~/checks/laws", "only bench imports checks"},
		{"server/internal/app/app_test.go", "~/checks/laws", "only bench imports checks"},
		{"store/windows.go", "time", "the folder store is in no room of the house: add its row"},
		{"limit.go", "~/cache", "cache is in no room of the house"},
	} {
		t.Run(tc.file+" "+tc.imports, func(t *testing.T) {
			got, err := check(repository(map[string]string{tc.file: source(tc.imports)}), house)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, got, tc.want)
		})
	}
}

// Requirements that a module must not have are reported.
func TestForbiddenRequirementsAreReported(t *testing.T) {
	for _, tc := range []struct {
		name, file, text, want string
	}{
		{"in order", "doc.go", "package sluice\n", ""},
		{
			"require", "go.mod", "module github.com/sluicehq/sluice\n\ngo 1.25\n\nrequire golang.org/x/time v0.1.0\n",
			"go.mod:5: module 1 requires golang.org/x/time",
		},
		{
			"replace", "go.mod", "module github.com/sluicehq/sluice\n\ngo 1.25\n\nreplace a.b/c => ../c\n",
			"go.mod:5: module 1 replaces a.b/c",
		},
		{
			"tool", "go.mod", "module github.com/sluicehq/sluice\n\ngo 1.25\n\ntool a.b/c\n",
			"go.mod:5: module 1 pins the tool a.b/c",
		},
		{
			"newer Go", "server/go.mod", "module github.com/sluicehq/sluice/server\n\ngo 1.26\n",
			"server/go.mod: every module supports Go 1.25",
		},
		{
			"toolchain", "server/go.mod", "module github.com/sluicehq/sluice/server\n\ngo 1.25\n\ntoolchain go1.26.0\n",
			"server/go.mod: a toolchain line",
		},
		{
			"other path", "server/go.mod", "module example.com/server\n\ngo 1.25\n",
			"server/go.mod: the module's path is not its folder",
		},
		{
			"outside go.work", "adapter/go.mod", "module github.com/sluicehq/sluice/adapter\n\ngo 1.25\n",
			"go work use ./adapter",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := check(repository(map[string]string{tc.file: tc.text}), house)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, got, tc.want)
		})
	}
}

func TestUnknownFolderIsNamedOnce(t *testing.T) {
	got, err := check(repository(map[string]string{
		"store/a.go": source("time"),
		"store/b.go": source("time"),
	}), house)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "store/a.go: the folder store")
}

// TestRowsAreUniqueAndNameRooms checks the table itself: rows are unique and name rooms that exist.
func TestRowsAreUniqueAndNameRooms(t *testing.T) {
	var names []string
	for _, r := range house {
		if slices.Contains(names, r.name) {
			t.Errorf("room %s has two rows", r.name)
		}
		names = append(names, r.name)
	}
	for _, r := range house {
		for _, other := range join(r.may, r.mayTests) {
			if !slices.Contains(names, other) {
				t.Errorf("room %s may import %s, which has no row", r.name, other)
			}
			if other == "bench" || other == "checks" && r.name != "bench" {
				t.Errorf("room %s may import %s, which is for measurements and tests", r.name, other)
			}
		}
		if r.remedy == "" {
			t.Errorf("room %s has no remedy", r.name)
		}
	}
}

// TestRoomsExist finds the folder of each row in this repository.
func TestRoomsExist(t *testing.T) {
	for _, r := range house {
		found, err := fs.Glob(os.DirFS("../.."), r.name)
		if err != nil || len(found) == 0 {
			t.Errorf("room %s has no folder (%v): delete its row", r.name, err)
		}
	}
}

func expect(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("reported %q, want nothing", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("reported %q, want one line with %q", got, want)
	}
}
