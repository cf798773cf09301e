package program

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestBuildsOnePackageOrSeveral builds a small program, for one package and for several at once.
func TestBuildsOnePackageOrSeveral(t *testing.T) {
	const bare = "github.com/sluicehq/sluice/examples/hello"
	for _, shared := range []string{"", t.TempDir()} {
		t.Setenv(sharedEnv, shared)
		dir := t.TempDir()
		var all sync.WaitGroup
		n := map[bool]int{true: 1, false: 3}[shared == ""]
		for i := range n {
			at := filepath.Join(dir, fmt.Sprint("program", i))
			all.Go(func() {
				if err := Build(at, bare); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		targets := map[string]bool{}
		for i := range n {
			target, err := filepath.EvalSymlinks(filepath.Join(dir, fmt.Sprint("program", i)))
			if err != nil {
				t.Fatal(err)
			}
			targets[target] = true
			if _, err := exec.LookPath(target); err != nil {
				t.Error(err)
			}
		}
		if len(targets) != 1 {
			t.Errorf("there are %d programs, want 1", len(targets))
		}
		if shared == "" {
			continue
		}
		if left, err := filepath.Glob(filepath.Join(shared, "*.new")); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
		if err := Build(filepath.Join(dir, "none"), bare+"/none"); err == nil || !bytes.Contains([]byte(err.Error()), []byte("building ")) {
			t.Errorf("a program that is not there: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "none")); err == nil {
			t.Error("a program that is not there has a link")
		}
	}
}

// TestEarlierWithoutHistory: an error names the commit that a clone does not have, and the remedy.
func TestEarlierWithoutHistory(t *testing.T) {
	const commit = "0123456789012345678901234567890123456789"
	for _, dir := range []string{".", t.TempDir()} {
		t.Chdir(dir)
		err := BuildEarlier(filepath.Join(t.TempDir(), "earlier"), commit, "server/cmd/sluice")
		if err == nil || !strings.Contains(err.Error(), commit) || !strings.Contains(err.Error(), "git fetch --unshallow") {
			t.Errorf("in %s, a commit that is not there: %v; want its name and the remedy", dir, err)
		}
	}
}
