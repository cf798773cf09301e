// Testall runs the tests of several modules and counts them in one sum.
//
// Usage, in the folder that holds the modules:
//
//	testall folder... [-- flags of go test]
//
// A module outside the workspace is tested on its own. Testall prints a line
// for each package that has tests, the output of what failed, and at the end
//
//	N passed, N failed
//
// where tests are the top-level ones. It exits with status 1 if anything
// failed, be it a test or a build.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
)

func main() {
	modules, flags := os.Args[1:], []string(nil)
	if i := slices.Index(modules, "--"); i >= 0 {
		modules, flags = modules[:i], modules[i+1:]
	}
	if len(modules) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testall folder... [-- flags of go test]")
		os.Exit(2)
	}
	joined, err := workspace()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testall:", err)
		os.Exit(1)
	}
	sum := newSummary(os.Stdout)
	for _, dir := range modules {
		fmt.Printf("\n== %s\n", dir)
		sum.broken(dir, goTest(dir, slices.Contains(joined, dir), flags, sum))
	}
	fmt.Println()
	if !sum.close() {
		os.Exit(1)
	}
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

// goTest runs the tests of one module and gives their events to the summary.
func goTest(dir string, joined bool, flags []string, events io.Writer) error {
	args := append([]string{"test", "-json"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir = dir
	if !joined {
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	cmd.Stdout = events
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
