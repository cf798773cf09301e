package process

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	build "github.com/sluicehq/sluice/checks/program"
)

// program is the path of sluice that Main has built.
var program string

// Program returns the path of sluice, in the tests of a package whose TestMain calls Main.
func Program() string { return program }

// Main builds sluice, runs the tests of a package, calls the functions, and exits. Call it in TestMain.
func Main(m *testing.M, after ...func()) { os.Exit(run(m, after)) }

func run(m *testing.M, after []func()) int {
	dir, err := os.MkdirTemp("", "process")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		for _, f := range after {
			f()
		}
	}()
	return m.Run()
}

// Build builds sluice into a folder, and returns its path. Packages whose TestMain calls Main do not need it.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "sluice")
	return path, build.Build(path, "github.com/sluicehq/sluice/server/cmd/sluice")
}

// A Sluice is a running sluice.
type Sluice struct {
	*Process
	URLs map[string]string // of the listeners, by their names
}

// StartSluice runs `sluice serve` until the test ends, and returns when so many listeners are open. A test that
// fails shows the log.
func StartSluice(tb testing.TB, cmd *exec.Cmd, listeners int) *Sluice {
	tb.Helper()
	s, err := NewSluice(cmd, listeners)
	if err != nil {
		tb.Fatal(err)
	}
	s.endWith(tb)
	return s
}

// NewSluice runs `sluice serve` until Kill, and returns when so many listeners are open. In tests, use StartSluice.
func NewSluice(cmd *exec.Cmd, listeners int) (*Sluice, error) {
	urls := map[string]string{}
	read := make(chan struct{})
	p, err := New(cmd, func(output io.Reader) {
		defer close(read)
		for lines := bufio.NewScanner(output); len(urls) < listeners && lines.Scan(); {
			// A line that begins with a space is a note about the line before.
			if name, url, found := strings.Cut(lines.Text(), " "); found && name != "" {
				urls[name] = strings.TrimSpace(url)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-read:
	case <-time.After(Patience):
		p.Kill()
		return nil, fmt.Errorf("sluice does not listen:\n%s", p.Log())
	}
	if len(urls) < listeners {
		<-p.Ended()
		return nil, fmt.Errorf("sluice ended:\n%s", p.Log())
	}
	return &Sluice{p, urls}, nil
}

// Address returns the host and port of a listener.
func (s *Sluice) Address(listener string) string {
	u, err := url.Parse(s.URLs[listener])
	if err != nil || u.Host == "" {
		panic(fmt.Sprintf("there is no listener %s: %v", listener, s.URLs))
	}
	return u.Host
}
