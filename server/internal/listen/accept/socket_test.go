package accept

import (
	"os"
	"path/filepath"
	"testing"
)

// socketFolder returns a new folder with a path that is short enough for sockets.
func socketFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // the path of t.TempDir has the name of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the system clears what is left
	return dir
}

// A server that ends leaves the socket of the next one, which has taken its path meanwhile.
func TestTheNextServerKeepsItsSocket(t *testing.T) {
	path := filepath.Join(socketFolder(t), "api")
	first, err := listenSocket(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := listenSocket(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}
