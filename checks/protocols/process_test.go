package protocols

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
)

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

// program is the path of sluice.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	redistest.Parallel(4) // tests mostly wait for programs
	dir, err := os.MkdirTemp("", "protocols")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", program, "./cmd/sluice")
	build.Dir = filepath.Join("..", "..", "server")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building sluice: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// log is what a process prints.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// server is a running sluice.
type server struct {
	cmd   *exec.Cmd
	urls  map[string]string // by the name of the listener
	log   *log
	ended chan struct{}
}

// serve starts a server with a configuration, without its version. The configuration turns so many listeners on.
func serve(tb testing.TB, config string, listeners int) *server {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return serveFile(tb, file, listeners)
}

// serveFile starts a server with a file, and returns when it listens.
func serveFile(tb testing.TB, file string, listeners int, flags ...string) *server {
	tb.Helper()
	s := &server{urls: map[string]string{}, log: &log{}, ended: make(chan struct{})}
	s.cmd = exec.Command(program, append([]string{"serve", file}, flags...)...)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	listening := make(chan struct{})
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(out); len(s.urls) < listeners && lines.Scan(); {
			if words := strings.Fields(lines.Text()); len(words) >= 2 && strings.Contains(words[1], "://") {
				s.urls[words[0]] = words[1]
			}
		}
		close(listening)
		_, _ = io.Copy(io.Discard, out) // until it ends
		_ = s.cmd.Wait()                // it is killed
	}()
	tb.Cleanup(func() {
		s.kill()
		if tb.Failed() {
			tb.Logf("the server's log:\n%s", s.log)
		}
	})
	select {
	case <-listening:
	case <-time.After(patience):
		tb.Fatal("the server did not say where it listens")
	}
	if len(s.urls) != listeners {
		<-s.ended
		tb.Fatalf("the server ended: %s", s.log)
	}
	return s
}

// kill ends the process at once.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// address returns host:port of a listener.
func (s *server) address(tb testing.TB, listener string) string {
	tb.Helper()
	u, err := url.Parse(s.urls[listener])
	if err != nil || u.Host == "" {
		tb.Fatalf("there is no listener %s: %v", listener, s.urls)
	}
	return u.Host
}
