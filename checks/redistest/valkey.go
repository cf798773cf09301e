package redistest

import (
	"fmt"
	"os/exec"
	"testing"
)

// Valkey lets servers that a test starts from here on, and its subtests, be those of
// valkey-server. Other tests must not run meanwhile; subtests may run in parallel.
func Valkey(tb testing.TB) {
	tb.Helper()
	path, err := valkeyProgram()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Setenv(programEnv, path)
}

func valkeyProgram() (string, error) {
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		return "", fmt.Errorf("redistest: the test needs a Valkey server: run make test, which installs it or says how: %w", err)
	}
	return path, nil
}
