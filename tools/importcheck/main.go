// Importcheck holds the code to the house: which package may import which, and
// that the library's module requires nothing. The rules are the table in
// house.go.
//
// Usage, in the top folder of the repository or with its path as argument:
//
//	importcheck [folder]
//
// It prints one line for each departure, with the remedy, and then exits with
// status 1.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	problems, err := check(os.DirFS(dir), house)
	if err == nil && len(problems) == 0 {
		problems, err = foreignDeps(dir)
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "importcheck:", err)
	}
	if err != nil || len(problems) > 0 {
		os.Exit(1)
	}
}

// foreignDeps lists the packages that module 1 and its tests are built from, and
// returns a line for each package that is neither ours nor the standard library's.
// It follows indirect imports, which check does not.
func foreignDeps(dir string) ([]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in module 1: %w", err)
	}
	var problems []string
	for line := range strings.Lines(string(out)) {
		pkg := strings.TrimSpace(line)
		if pkg == "" {
			continue
		}
		// The root's external tests are a package beside it, "…_test [….test]".
		path := strings.TrimSuffix(strings.Fields(pkg)[0], "_test")
		if pkg == modulePath+".test" || within(path, modulePath) {
			continue
		}
		problems = append(problems, fmt.Sprintf("module 1 is built from %s: it requires nothing, tests included", pkg))
	}
	return problems, nil
}
