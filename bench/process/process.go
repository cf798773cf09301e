// Package process starts the servers that are measured, and reads what they use.
package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	build "github.com/sluicehq/sluice/checks/program"
)

// A Server is a process that listens at an address. Its children count as a part of it.
type Server struct {
	Address string
	command *exec.Cmd
}

// Build builds a Go program of this workspace.
func Build(program, path string) error {
	return build.Build(program, path)
}

// Start starts a program, and waits until it accepts connections at an address.
func Start(address, program string, args ...string) (*Server, error) {
	s := &Server{address, exec.Command(program, args...)} //nolint:noctx // Stop ends it
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	if err := s.answers(); err != nil {
		s.Stop()
		return nil, fmt.Errorf("%s does not answer: %w", program, err)
	}
	return s, nil
}

// Locate finds an installed program, also where only root's PATH leads. The error names the packages of Debian to install.
func Locate(name, packages string) (string, error) {
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed (Debian: apt-get install %s)", name, packages)
}

// FreeAddress returns an address of this machine at which nothing listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// answers waits until the server accepts connections.
func (s *Server) answers() error {
	return Until(func() error {
		c, err := net.Dial("tcp", s.Address) //nolint:noctx // it is closed at once
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// Until tries something until it succeeds, for 20 seconds at most. It returns the last error.
func Until(try func() error) (err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		<-tick.C
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

// Stop ends the process and its children.
func (s *Server) Stop() {
	for _, pid := range s.pids() {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // a process that has ended is what is wanted
		}
	}
	_ = s.command.Wait() // it was killed
}

// pids returns the processes, parents before their children, which a parent could start again.
func (s *Server) pids() []int {
	var all []int
	var add func(pid int)
	add = func(pid int) {
		all = append(all, pid)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err == nil {
			for _, field := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(field); err == nil {
					add(child)
				}
			}
		}
	}
	add(s.command.Process.Pid)
	return all
}

// CPU returns the time that the processes have used.
func (s *Server) CPU() (time.Duration, error) {
	sum := time.Duration(0)
	for _, pid := range s.pids() {
		used, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// Memory returns the bytes of memory that the processes have for themselves.
func (s *Server) Memory() (int64, error) {
	sum := int64(0)
	for _, pid := range s.pids() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, found := strings.Cut(string(text), "\nRssAnon:")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			return 0, errShort
		}
		kb, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kb << 10
	}
	return sum, nil
}

var errShort = errors.New("the file of the process lacks a field")
