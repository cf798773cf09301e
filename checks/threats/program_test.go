package threats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// program is a process that a test has started.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	log   *locked
}

// locked is a buffer that a process and a test use at the same time.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// begin starts a process. What it prints goes to read, which returns at the end of it.
func begin(read func(io.Reader), name string, args ...string) (*program, error) {
	cmd := exec.Command(name, args...)
	p := &program{cmd: cmd, ended: make(chan struct{}), log: new(locked)}
	cmd.Stderr = p.log
	cmd.SysProcAttr = endsWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// The system ends the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			read(out)
			_ = cmd.Wait() // it is killed
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, err)
	}
	return p, nil
}

// kill ends the process.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// locate returns the path of a program that the tests need.
func locate(pkg string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing: run make test, which installs it or prints how (Debian: apt-get install %s)", names[0], pkg)
}

// python returns the path of a Python that has Flask.
func python() (string, error) {
	var errs []error
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.Command(name, "-c", "import flask").CombinedOutput()
		if err == nil {
			return name, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w: %s", name, err, out))
	}
	return "", fmt.Errorf("no Python has Flask: run make test, which installs it or prints how (Debian: apt-get install python3-flask): %w", errors.Join(errs...))
}

// fill copies a file of testdata into a folder, with its words in capitals replaced.
func fill(folder, name string, words ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, name)
	return path, os.WriteFile(path, []byte(strings.NewReplacer(words...).Replace(string(text))), 0o600)
}
