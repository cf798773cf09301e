package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each mutation applies to the code of today, changes it, and names a test that exists.
func TestMutationsApply(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutations() {
		text, err := m.apply("../..")
		if err != nil {
			t.Errorf("%v does not apply: %v", m, err)
			continue
		}
		if m.old == m.new || seen[text+m.test] {
			t.Errorf("%v changes nothing, or the same as another mutation with this test", m)
		}
		seen[text+m.test] = true
		folder, test, _ := strings.Cut(m.test, " ")
		if !hasTest(t, filepath.Join("..", "..", folder), test) {
			t.Errorf("%v: %s has no such test: name the test that proves the promise", m, folder)
		}
	}
}

func hasTest(t *testing.T, folder, test string) bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

// A mutation is caught only if its test ran and failed. A change that does not compile is not.
func TestOnlyAFailedTestCatchesAMutation(t *testing.T) {
	broken := errors.New("exit status 1")
	for _, c := range []struct {
		name, events string
		run          error
		caught       bool
	}{
		{"failed", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail","Test":"TestA"}`, broken, true},
		{"never ended", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"output","Test":"TestA","Output":"panic: test timed out"}`, broken, true},
		{"another test ended the program", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}`, broken, false},
		{"passed", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}`, nil, false},
		{"another test failed", `{"Action":"fail","Test":"TestB"}`, broken, false},
		{"skipped", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"skip","Test":"TestA"}`, nil, false},
		{"no such test", `{"Action":"pass","Package":"a"}`, nil, false},
		{"does not compile", `{"Action":"build-fail"}`, broken, false},
	} {
		if err := verdict("TestA", []byte(c.events), "", c.run); (err == nil) != c.caught {
			t.Errorf("%s: the verdict is %v, but it must be caught: %v", c.name, err, c.caught)
		}
	}
}
