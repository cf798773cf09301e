package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find returns the path of a program that tests need, by any of its names. The package is Debian's.
func Find(pkg string, names ...string) (string, error) {
	for _, name := range names {
		for _, path := range []string{name, "/usr/sbin/" + name} {
			if found, err := exec.LookPath(path); err == nil {
				return found, nil
			}
		}
	}
	return "", fmt.Errorf("%s is missing: run make test, which installs it or prints how (Debian: apt-get install %s)", names[0], pkg)
}

// Patient lengthens the timeouts in a gateway's file of the examples. On a busy machine, an answer of sluice may take
// longer than a gateway should wait.
func Patient(file string) string {
	return strings.NewReplacer(" 1500ms", " 15s", " 500ms", " 10s", " 100ms\n", " 10s\n", "(500, 500, 1500)", "(10000, 10000, 15000)").Replace(file)
}

// Python returns the path of a Python that has a module: the system's, or the one in PATH. The package is Debian's.
func Python(module, pkg string) (string, error) {
	var errs []error
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.Command(name, "-c", "import "+module).CombinedOutput() //nolint:noctx // it ends by itself
		if err == nil {
			return name, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w: %s", name, err, out))
	}
	return "", fmt.Errorf("no Python has %s: run make test, which installs it or prints how (Debian: apt-get install %s): %w", module, pkg, errors.Join(errs...))
}

// Node returns the path of Node.js for scripts of a folder, whose npm packages must be installed.
func Node(folder string) (string, error) {
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		return "", fmt.Errorf("the npm packages of %s are missing: run make test, which installs them, or npm ci in that folder: %w", folder, err)
	}
	return Find("nodejs", "node")
}
