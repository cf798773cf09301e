package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPlanFollowsTheTables: each package is in the runs that the tables say, early packages come first, and a
// run without packages is left out.
func TestPlanFollowsTheTables(t *testing.T) {
	all := []string{ours, ours + "/internal/algo", ours + "/memory", ours + "/checks/faults", ours + "/bandwidth", ours + "/bench/peers"}
	for _, tc := range []struct {
		packages []string
		tier     tier
		picked   bool
		want     map[string][]string // by the name of the run
	}{
		{all, day, false, map[string][]string{
			"with the race detector":    {".", "bandwidth"},
			"without the race detector": {"checks/faults", "memory"},
			"without servers":           {"internal/algo"},
			"lone tests":                {".", "bandwidth"},
			"crowded tests":             {"checks/faults", "memory"},
			"timed tests":               {"checks/faults"},
			"tests on 32 bits":          {".", "memory"},
		}},
		{all, quick, false, map[string][]string{"quick tests": {".", "internal/algo", "memory", "bandwidth"}}},
		{all, night, false, map[string][]string{
			"harnesses": {"bench/peers"}, "nightly tests": {"checks/faults", "bandwidth"}, "with the race detector": {"checks/faults", "memory"},
		}},
		{all, day, true, map[string][]string{
			"with the race detector":    {".", "bandwidth"},
			"without the race detector": {"checks/faults", "internal/algo", "memory", "bench/peers"},
		}},
		{[]string{ours + "/checks/protocols"}, day, false, map[string][]string{
			"without the race detector": {"checks/protocols"}, "timed tests": {"checks/protocols"}, "measured tests": {"checks/protocols"},
		}},
		{all[1:2], day, false, map[string][]string{"without servers": {"internal/algo"}}},
	} {
		if !runsNarrow {
			delete(tc.want, "tests on 32 bits")
		}
		got := map[string][]string{}
		for _, chain := range slices.Concat(plan(tc.packages, tc.tier, tc.picked)...) {
			for _, r := range chain {
				for _, p := range r.packages {
					got[r.name] = append(got[r.name], room(p))
				}
				if raced := r.name == "with the race detector" || r.name == "crowded tests"; r.race != raced || r.dir != "." {
					t.Errorf("%s: wrong kind of run: %+v", r.name, r)
				}
			}
		}
		if !maps.EqualFunc(got, tc.want, slices.Equal) {
			t.Errorf("%v, %s, picked %v: got %v, want %v", tc.packages, tc.tier, tc.picked, got, tc.want)
		}
	}
}

// Only the flags that pick tests do.
func TestOnlySomeFlagsPickTests(t *testing.T) {
	for flag, want := range map[string]bool{"-run": true, "--run=TestA": true, "-skip=TestB": true, "-race": false, "-count": false, "TestRun": false} {
		if got := picks([]string{"-v", flag}); got != want {
			t.Errorf("%s picks tests: %v, want %v", flag, got, want)
		}
	}
}

// TestNoTestIsSkippedByItsNamesake: runs skip the tests of tables by their names, so no package outside a table may have a
// test with such a name: nothing would run it.
func TestNoTestIsSkippedByItsNamesake(t *testing.T) {
	top := filepath.Join("..", "..")
	function := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
	listed := map[string]map[string]bool{} // tests, by the table
	tables := map[string]map[string][]string{"crowded": crowded, "lone": lone, "timed": timed, "measured": measured, "nightly": nightly}
	for name, table := range tables {
		listed[name] = map[string]bool{}
		for _, tests := range table {
			for _, test := range tests {
				listed[name][test] = true
			}
		}
	}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		room := filepath.ToSlash(folder)
		which := []string{"timed", "measured", "nightly", "lone"}
		if _, found := plain[room]; found {
			which[3] = "crowded"
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range function.FindAllSubmatch(text, -1) {
			name, skipped, runs := string(m[1]), false, false
			for _, table := range which {
				skipped = skipped || listed[table][name]
				runs = runs || listed[table][name] && tables[table][room] != nil
			}
			if skipped && !runs {
				t.Errorf("%s of %s is never run: a table has a test of this name in another package; rename one of them", name, room)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTablesNameTests: a package or a test that has moved does not stay in the tables.
func TestTablesNameTests(t *testing.T) {
	source := func(room string) (text []byte) {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(room), "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", room, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		return text
	}
	for _, room := range slices.Concat(slices.Sorted(maps.Keys(plain)), early, harnesses, equipped) {
		source(room)
	}
	for room, reason := range plain {
		if reason == "" {
			t.Errorf("%s has no reason to run without the race detector", room)
		}
	}
	for name, table := range map[string]map[string][]string{"crowded": crowded, "lone": lone, "timed": timed, "measured": measured, "narrow": narrow, "nightly": nightly, "slow": slow} {
		for room, tests := range table {
			if _, found := plain[room]; slices.Contains([]string{"crowded", "lone"}, name) && found != (name == "crowded") {
				t.Errorf("%s must not be in the table %s", room, name)
			}
			text := source(room)
			for _, test := range tests {
				if !regexp.MustCompile(`(?m)^func ` + test + `\(`).Match(text) {
					t.Errorf("there is no %s in %s", test, room)
				}
			}
		}
	}
}
