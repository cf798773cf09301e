package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildEarlier builds a program of an earlier commit of this repository, named by its folder, at a path. The
// program stays in the user's folder for caches, where later calls find it, and the path is a link to it.
func BuildEarlier(at, commit, folder string) error {
	top, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return noHistory(commit, err)
	}
	// A name such as HEAD means another commit tomorrow.
	full, err := output("git", "rev-parse", "--verify", "--quiet", commit+"^{commit}")
	if err != nil {
		return noHistory(commit, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	programs := filepath.Join(cache, "sluice", full)
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	return kept(filepath.Join(programs, filepath.Base(folder)), at, func(at string) error {
		sources, err := os.MkdirTemp("", "sluice")
		if err != nil {
			return err
		}
		defer os.RemoveAll(sources)
		tar := filepath.Join(sources, "files.tar")
		if _, err := output("git", "-C", top, "archive", "-o", tar, full); err != nil {
			return err
		}
		if _, err := output("tar", "-x", "-C", sources, "-f", tar); err != nil {
			return err
		}
		_, err = output("go", "-C", sources, "build", "-buildvcs=false", "-ldflags=-w", "-o", at, "./"+folder)
		return err
	})
}

// noHistory says what to do if the repository does not have a commit.
func noHistory(commit string, err error) error {
	return fmt.Errorf("the program of commit %s cannot be built, because this folder has no history with that commit: "+
		"clone the repository, with git fetch --unshallow if the clone is shallow: %w", commit, err)
}

// output runs a command and returns what it prints.
func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output() //nolint:noctx // it ends by itself
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
