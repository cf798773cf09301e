package protocols

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(4) // tests mostly wait for programs
	process.Main(m)
}

// serve starts a server with a configuration, without its version. The configuration turns one listener on.
func serve(tb testing.TB, config string) *process.Sluice {
	tb.Helper()
	return serveFile(tb, writeConfig(tb, config), 1)
}

// writeConfig writes a configuration, without its version, into a file.
func writeConfig(tb testing.TB, config string) (file string) {
	tb.Helper()
	file = filepath.Join(tb.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// serveFile starts a server with a file that turns so many listeners on.
func serveFile(tb testing.TB, file string, listeners int) *process.Sluice {
	tb.Helper()
	return process.StartSluice(tb, exec.Command(process.Program(), "serve", file), listeners)
}
