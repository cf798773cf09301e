// Package program builds the programs that tests and measurements start.
package program

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// sharedEnv names a folder in which test programs of several packages share what they build. `make test` sets it.
const sharedEnv = "TESTALL_PROGRAMS"

// flagsEnv has more flags of `go build`, such as -race. `make nightly` sets it.
const flagsEnv = "SLUICE_PROGRAM_FLAGS"

// Build builds a Go program of this workspace, named by its import path, at a path. If the variable TESTALL_PROGRAMS names a folder,
// the program is built there once for all processes, and the path is a link to it. Build is safe for concurrent use, also by
// several processes.
func Build(at, importPath string) error {
	return once(at, importPath, func(at string) error { return build(at, importPath) })
}

// BuildModule is Build for the program in the top folder of a module that is outside of the workspace.
func BuildModule(at, folder string) error {
	path, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	whole, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	return once(path, whole, func(at string) error { return build(at, ".", "-C", whole) })
}

// once makes a program, or a link to the program of the same name that was made before.
func once(at, name string, build func(at string) error) error {
	shared := os.Getenv(sharedEnv)
	if shared == "" {
		return build(at)
	}
	return kept(filepath.Join(shared, fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:16]), at, build)
}

// kept builds a program unless an earlier call has built it, and makes a link to it.
func kept(built, at string, build func(at string) error) error {
	lock, err := os.OpenFile(built+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(built); errors.Is(err, fs.ErrNotExist) {
		// A process that is killed meanwhile leaves no half of a program.
		if err := build(built + ".new"); err != nil {
			return err
		}
		if err := os.Rename(built+".new", built); err != nil {
			return err
		}
	}
	return os.Symlink(built, at)
}

// build runs the Go command, whose first arguments may be flags for a module of its own.
func build(at, importPath string, module ...string) error {
	// Programs link faster without symbols and tables for debuggers, and without the state of the repository.
	args := slices.Concat([]string{"build"}, module, strings.Fields(os.Getenv(flagsEnv)), []string{"-buildvcs=false", "-ldflags=-s", "-o", at, importPath})
	cmd := exec.Command("go", args...) //nolint:noctx // it ends by itself
	if len(module) > 0 {
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", importPath, err, out)
	}
	return nil
}
