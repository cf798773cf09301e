package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
)

// programEnv names the server's program, if it is not redis-server.
const programEnv = "SLUICE_REDIS_SERVER"

// program finds the server's program.
func program() (string, error) {
	if path := os.Getenv(programEnv); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("redistest: SLUICE_REDIS_SERVER does not name a server's program: %w", err)
		}
		return found, nil
	}
	found, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("redistest: the test needs a Redis server: run make test, which installs it or says how (Debian: apt-get install redis-server), "+
			"or set SLUICE_REDIS_SERVER to the path of redis-server or valkey-server: %w", err)
	}
	return found, nil
}

// launch starts a process that writes its output to log. Its environment is the environment of the test,
// and env.
func launch(log *os.File, far bool, env []string, name string, args ...string) (*process.Process, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if far {
		if err := isolate(cmd); err != nil {
			return nil, err
		}
	}
	p, err := process.New(cmd, nil)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return p, nil
}

// stop stops the process, and returns when it has stopped.
func stop(p *process.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("redistest: cannot stop the server: %w", err)
	}
	stat := fmt.Sprintf("/proc/%d/stat", p.PID())
	return until(context.Background(), "the server to stop", func(context.Context) error {
		b, err := os.ReadFile(stat)
		if err != nil {
			return nil //nolint:nilerr // no /proc here: the signal has to do
		}
		// The state follows the program's name, which is in parentheses.
		if i := bytes.LastIndexByte(b, ')'); i < 0 || !bytes.HasPrefix(b[i+1:], []byte(" T")) {
			return errors.New("it still runs")
		}
		return nil
	})
}

func resume(p *process.Process) error {
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("redistest: cannot resume the server: %w", err)
	}
	return nil
}

// patience bounds each wait, besides the caller's context. It is long because
// the machine may be busy; nothing that works comes near it.
const patience = 30 * time.Second

// until calls try a hundred times a second until it returns nil.
func until(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		var final *finalError
		if errors.As(err, &final) {
			return final.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: waited in vain for %s: %w", what, err)
		case <-tick.C:
		}
	}
}

// A finalError ends the wait of until.
type finalError struct{ error }

// Soon is much longer than a call takes that nothing disturbs.
const Soon = 30 * time.Second

// Within returns a context for a call that must end within a time.
func Within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}
