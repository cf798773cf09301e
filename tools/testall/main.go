// Testall runs the tests of several modules at once and counts them in one sum.
//
// Usage, in the folder that holds the modules:
//
//	testall quick|day|night folder... [-- flags of go test]
//
// The first word is the tier: tests that need only Go, the tests of a day, or the tests that the day leaves out. A module
// outside the workspace is tested separately. The tables in plan.go say which tests run without the race detector and
// which packages start first. Testall
// prints a line for each package that has tests, the output of what failed, the
// slowest tests, and at the end
//
//	N passed, N failed
//
// where tests are the top-level ones. It exits with status 1 if a test or a
// build failed.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/modfile"
)

// slowest is how many tests the run lists at its end.
const slowest = 10

func main() {
	words, flags := os.Args[1:], []string(nil)
	if i := slices.Index(words, "--"); i >= 0 {
		words, flags = words[:i], words[i+1:]
	}
	if len(words) < 2 || !slices.Contains([]tier{quick, day, night}, tier(words[0])) {
		fmt.Fprintln(os.Stderr, "usage: testall quick|day|night folder... [-- flags of go test]")
		os.Exit(2)
	}
	ok, err := perform(tier(words[0]), words[1:], flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testall:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// perform runs the tests, and reports whether all passed.
func perform(t tier, modules, flags []string) (bool, error) {
	// Test programs of several packages start the same programs, and build each of them once.
	programs, err := os.MkdirTemp("", "testall")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(programs)
	if err := os.Setenv("TESTALL_PROGRAMS", programs); err != nil {
		return false, err
	}
	sum := newSummary(os.Stdout)
	phases, err := planned(modules, t, picks(flags))
	if err != nil {
		return false, err
	}
	for _, chains := range phases {
		var all sync.WaitGroup
		for _, chain := range chains {
			all.Go(func() {
				for _, r := range chain {
					events := sum.stream(r.name)
					events.end(r.test(flags, events), r.used)
				}
			})
		}
		all.Wait()
	}
	fmt.Println()
	return sum.close(slowest), nil
}

// planned finds the packages of the modules and returns the runs for them, as plan does.
func planned(modules []string, t tier, picked bool) (phases [][][]run, err error) {
	joined, err := workspace()
	if err != nil {
		return nil, err
	}
	var inside []string // patterns
	var outside []run
	for _, dir := range modules {
		if slices.Contains(joined, dir) {
			inside = append(inside, "./"+filepath.ToSlash(filepath.Join(dir, "...")))
			continue
		}
		r := run{name: dir, dir: dir, env: []string{"GOWORK=off"}, packages: []string{"./..."}}
		if t == day {
			r.kept = dir
		}
		outside = append(outside, r)
	}
	if len(inside) == 0 {
		return [][][]run{{outside}}, nil
	}
	packages, err := list(inside, t == day)
	if err != nil {
		return nil, err
	}
	phases = plan(packages, t, picked)
	last := len(phases[0]) - 1
	phases[0][last] = append(phases[0][last], outside...) // these are without the race detector
	return phases, nil
}

// workspace returns the folders that go.work joins.
func workspace() ([]string, error) {
	text, err := os.ReadFile("go.work")
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, use := range work.Use {
		dirs = append(dirs, filepath.Clean(use.Path))
	}
	return dirs, nil
}

// list returns the import paths that patterns match, or of these the packages that have tests, or errors.
func list(patterns []string, tested bool) ([]string, error) {
	format := "{{.ImportPath}}"
	if tested {
		format = "{{if or .TestGoFiles .XTestGoFiles .Error}}{{.ImportPath}}{{end}}"
	}
	cmd := exec.Command("go", append([]string{"list", "-e", "-f", format}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.Fields(string(out)), nil
}
