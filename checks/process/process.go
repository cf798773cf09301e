// Package process runs programs for tests: sluice, and the gateways, services and clients around it. A program
// ends with its test. On Linux it also ends when the process of the test is killed.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long tests wait for what must come.
const Patience = 20 * time.Second

// A Process is a running program. Its methods are safe for concurrent use.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   log
}

// Start runs a program until the test ends. A test that fails shows the log.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p, err := New(cmd, nil)
	if err != nil {
		tb.Fatal(err)
	}
	p.endWith(tb)
	return p
}

// New runs a program until Kill. In tests, use Start. The function read gets the standard output. If it is nil, the
// output goes to cmd.Stdout or else to the log. Errors go to cmd.Stderr or else to the log.
func New(cmd *exec.Cmd, read func(output io.Reader)) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.log
	}
	var output io.Reader
	if read != nil {
		var err error
		if output, err = cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	} else if cmd.Stdout == nil {
		cmd.Stdout = &p.log
	}
	if cmd.Env == nil {
		cmd.Env = Environ()
	}
	endWithParent(cmd)
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// The system ends the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if read != nil {
			read(output)
			_, _ = io.Copy(io.Discard, output) // until it ends
		}
		_ = cmd.Wait() // ExitCode returns how it ended
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s does not start: %w", cmd.Path, err)
	}
	return p, nil
}

// Environ returns the environment without the variables that sluice reads. Variables of tests, and of the shell that runs
// them, must not become settings of the servers under test.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SLUICE_") })
}

func (p *Process) endWith(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("the log of %s:\n%s", filepath.Base(p.cmd.Path), p.Log())
		}
	})
}

// Log returns what the process has written.
func (p *Process) Log() string { return p.log.String() }

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ExitCode returns the exit code of a process that has ended, and -1 if a signal ended it.
func (p *Process) ExitCode() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process (SIGKILL), and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Accepts waits until the process accepts connections at an address.
func (p *Process) Accepts(address string) error {
	return p.Until(func() error {
		c, err := net.Dial("tcp", address) //nolint:noctx // the loop ends it
		if err != nil {
			return fmt.Errorf("does not listen: %w", err)
		}
		return c.Close()
	})
}

// Until waits until a function returns no error. Its errors begin with a verb, such as "does not listen".
func (p *Process) Until(ready func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(Patience)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New(p.cmd.Path + " ended:\n" + p.Log())
		case <-late:
			return fmt.Errorf("%s %w\n%s", p.cmd.Path, err, p.Log())
		case <-tick.C:
		}
	}
}

// Eventually waits for a condition, and returns how long that took.
func Eventually(tb testing.TB, what string, ok func() bool) time.Duration {
	tb.Helper()
	// What takes long is tried less often: a try may be a scrape of a server.
	pause := 10 * time.Millisecond
	for began := time.Now(); time.Since(began) < Patience; <-time.After(pause) {
		if ok() {
			return time.Since(began)
		}
		pause = min(max(pause, time.Since(began)/8), 50*time.Millisecond)
	}
	tb.Fatalf("%s did not happen", what)
	return 0
}

// log collects what a process writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
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
