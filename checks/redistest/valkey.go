package redistest

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// valkeyTests holds the names of the tests whose servers run valkey-server.
var valkeyTests sync.Map

// Valkey makes the servers that a test and its subtests start from here on run
// valkey-server. Other tests may run in parallel.
func Valkey(tb testing.TB) {
	tb.Helper()
	if _, err := valkeyProgram(); err != nil {
		tb.Fatal(err)
	}
	valkeyTests.Store(tb.Name(), true)
	tb.Cleanup(func() { valkeyTests.Delete(tb.Name()) })
}

// OverValkey reports whether Valkey was called for a test or for one that it is part of.
func OverValkey(tb testing.TB) bool {
	tb.Helper()
	for name := tb.Name(); ; {
		if _, found := valkeyTests.Load(name); found {
			return true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return false
		}
		name = name[:i]
	}
}

// forTest returns options for a server of a test.
func forTest(tb testing.TB, opts []Option) []Option {
	tb.Helper()
	if !OverValkey(tb) {
		return opts
	}
	path, err := valkeyProgram()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]Option{func(o *options) { o.program = path }}, opts...)
}

func valkeyProgram() (string, error) {
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		return "", fmt.Errorf("redistest: the test needs a Valkey server: run make test, which installs it or says how (Debian: apt-get install valkey-server): %w", err)
	}
	return path, nil
}

// RunOverValkey runs a test over Valkey.
func RunOverValkey(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	Valkey(t)
	test(t)
}
