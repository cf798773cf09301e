package accept

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestQuietTakesNoMoreConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	quiet(l.(*net.TCPListener), 10*time.Millisecond)
	select {
	case c := <-accepted:
		c.Close()
	case <-time.After(20 * time.Second):
		t.Error("a connection that was made before is not accepted")
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a later client gets %v", err)
	}
}

// Only the server's user can connect to a Unix socket before its file has its mode.
func TestASocketIsClosedAtFirst(t *testing.T) {
	s, err := listenSocket(filepath.Join(socketFolder(t), "api"), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if mode := s.file.Mode().Perm(); mode&0o077 != 0 {
		t.Errorf("the file has the mode %v at first", mode)
	}
	if info, err := os.Stat(s.path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the file has the mode %v later: %v", info.Mode(), err)
	}
}
