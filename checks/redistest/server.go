package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
)

// A Server is one server process. Its methods are safe for concurrent use.
type Server struct {
	Port   int
	Socket string // the Unix socket; a sentinel has none

	opts    *options
	dir     string
	log     *os.File
	ports   ports
	trusted *tls.Config // with the option TLS

	mu   sync.Mutex // held while the process changes
	proc *process.Process
}

// Start runs a server until the test ends. A test that fails shows the end of the
// server's log.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := New(forTest(tb, opts)...)
	if err != nil {
		tb.Fatal(err)
	}
	s.endWith(tb)
	return s
}

// New runs a server until Close. In tests, use Start.
func New(opts ...Option) (*Server, error) { return start(collect(opts)) }

func start(o *options) (*Server, error) {
	// Not the test's own folder: its name may be too long for a Unix socket.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{opts: o, dir: dir}
	// If another process takes the port first, the server ends at once.
	for range 5 {
		if err = s.startAnywhere(); err == nil || !strings.Contains(s.logEnd(), "in use") {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) startAnywhere() (err error) {
	if s.ports, err = freePorts(); err != nil {
		return err
	}
	if s.Port, err = strconv.Atoi(s.ports.plain); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	if !s.opts.sentinel {
		s.Socket = socketIn(s.dir)
	}
	if s.opts.tls {
		if s.trusted, err = WriteCertificate(s.dir); err != nil {
			return err
		}
	}
	files := map[string]string{configIn(s.dir): s.opts.configuration(s.dir, s.ports)}
	if s.opts.acl != nil {
		files[aclIn(s.dir)] = s.opts.users()
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	if s.log == nil {
		s.log, err = os.OpenFile(logIn(s.dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	} else {
		err = s.log.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return s.Restart()
}

func (s *Server) endWith(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the end of the log of the server at %s:\n%s", s.Addr(), s.logEnd())
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
}

// Addr is where the server listens without TLS, as "127.0.0.1:20123".
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.ports.plain) }

// TLSAddr is where the server listens with TLS, with the option TLS.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", s.ports.tls) }

// TLSConfig is a client's configuration that trusts the server, with the option TLS.
func (s *Server) TLSConfig() *tls.Config { return s.trusted.Clone() }

// PID is the id of the server's process, and 0 when none runs. It changes with Restart.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.PID()
}

// Pause stops the process (SIGSTOP) and returns when it has stopped. The system
// goes on accepting connections for it, and nobody answers.
func (s *Server) Pause() error { return s.signal(stop) }

// Resume lets a paused process go on (SIGCONT).
func (s *Server) Resume() error { return s.signal(resume) }

func (s *Server) signal(send func(*process.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return errors.New("redistest: no server runs; call Restart first")
	}
	return send(s.proc)
}

// Kill ends the process (SIGKILL), paused or not, and returns when it is gone. It is
// not an error when none runs.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	if s.proc == nil {
		return nil
	}
	if err := s.proc.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("redistest: cannot kill the server: %w", err)
	}
	<-s.proc.Ended()
	s.proc = nil
	return nil
}

// Restart kills the process if one runs, starts another with the same port and
// configuration, and returns when it answers. The data is gone, unless the
// configuration says otherwise.
func (s *Server) Restart() error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitReady(context.Background())
}

// Launch is Restart that does not wait: the server may still be loading.
func (s *Server) Launch() error {
	name := s.opts.program
	if name == "" {
		var err error
		if name, err = program(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	args := []string{configIn(s.dir)}
	if s.opts.sentinel {
		args = append(args, "--sentinel")
	}
	p, err := launch(s.log, s.opts.far, s.opts.env, name, args...)
	if err != nil {
		return err
	}
	s.proc = p
	return nil
}

// WaitReady returns when the server answers commands, and an error when the context
// ends, when the process ends, or after half a minute.
func (s *Server) WaitReady(ctx context.Context) error {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p == nil {
		return errors.New("redistest: no server runs; call Restart first")
	}
	want := strconv.Itoa(p.PID())
	return until(ctx, "a server to answer at "+s.Addr(), func(ctx context.Context) error {
		select {
		case <-p.Ended():
			return &finalError{fmt.Errorf("redistest: the server ended; its log ends so:\n%s", s.logEnd())}
		default:
		}
		if _, err := s.Do(ctx, "PING"); err != nil {
			return err
		}
		info, err := s.Info(ctx, "server")
		if err != nil {
			return err
		}
		if info["process_id"] != want {
			return errors.New("another server has its port")
		}
		return nil
	})
}

// Close ends the server and removes its files.
func (s *Server) Close() error {
	err := s.Kill()
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Dial connects to the server as a user who may do everything, over its Unix socket, which
// takes a third less processor time. Close the connection.
func (s *Server) Dial(ctx context.Context) (*Conn, error) {
	network, addr := "unix", s.Socket
	if s.opts.sentinel {
		network, addr = "tcp", s.Addr()
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	conn := newConn(c)
	if s.opts.acl != nil {
		if _, err := conn.Do(ctx, "AUTH", ownUser, ownPass); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// Do sends one command over a connection of its own, and returns as Conn.Do does.
func (s *Server) Do(ctx context.Context, args ...string) (any, error) {
	c, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, args...)
}

// Text is Do for a command that replies with one string.
func (s *Server) Text(ctx context.Context, args ...string) (string, error) {
	v, err := s.Do(ctx, args...)
	if err != nil {
		return "", err
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("redistest: %s replied %v, which is not a string", args[0], v)
	}
	return text, nil
}

// Int is Do for a command that replies with an integer.
func (s *Server) Int(ctx context.Context, args ...string) (int64, error) {
	v, err := s.Do(ctx, args...)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("redistest: %s replied %v, which is not an integer", args[0], v)
	}
	return n, nil
}

// logEnd is the end of what the server wrote.
func (s *Server) logEnd() string {
	const enough = 4 << 10
	b, err := os.ReadFile(logIn(s.dir))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-enough):]))
}

func configIn(dir string) string { return filepath.Join(dir, "server.conf") }
func aclIn(dir string) string    { return filepath.Join(dir, "users.acl") }
func logIn(dir string) string    { return filepath.Join(dir, "server.log") }
func socketIn(dir string) string { return filepath.Join(dir, "server.sock") }
