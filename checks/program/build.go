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
	"syscall"
)

// sharedEnv names a folder in which test programs of several packages share what they build. `make test` sets it.
const sharedEnv = "TESTALL_PROGRAMS"

// Build builds a Go program of this workspace, named by its import path, at a path. If the variable TESTALL_PROGRAMS names a folder,
// the program is built there once for all processes, and the path is a link to it. Build is safe for concurrent use, also by
// several processes.
func Build(at, importPath string) error {
	shared := os.Getenv(sharedEnv)
	if shared == "" {
		return build(at, importPath)
	}
	built := filepath.Join(shared, fmt.Sprintf("%x", sha256.Sum256([]byte(importPath)))[:16])
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
		if err := build(built+".new", importPath); err != nil {
			return err
		}
		if err := os.Rename(built+".new", built); err != nil {
			return err
		}
	}
	return os.Symlink(built, at)
}

func build(at, importPath string) error {
	// Programs link faster without tables for debuggers, and without the state of the repository.
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", at, importPath).CombinedOutput(); err != nil { //nolint:noctx // it ends by itself
		return fmt.Errorf("building %s: %w\n%s", importPath, err, out)
	}
	return nil
}
