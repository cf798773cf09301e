package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The connection of a test server sends commands and reads each kind of reply.
func TestServerAnswers(t *testing.T) {
	s := Start(t, Config("maxmemory 123mb"))
	ctx := short(t)
	if got, err := s.Text(ctx, "SET", "a", "b\r\nc"); got != "OK" || err != nil {
		t.Fatalf("SET: %q, %v", got, err)
	}
	if got, err := s.Text(ctx, "GET", "a"); got != "b\r\nc" || err != nil {
		t.Errorf("GET: %q, %v", got, err)
	}
	if got, err := s.Do(ctx, "GET", "none"); got != nil || err != nil {
		t.Errorf("GET of nothing: %v, %v", got, err)
	}
	if got, err := s.Int(ctx, "STRLEN", "a"); got != 4 || err != nil {
		t.Errorf("STRLEN: %d, %v", got, err)
	}
	got, err := s.Do(ctx, "CONFIG", "GET", "maxmemory")
	if list, ok := got.([]any); !ok || err != nil || !slices.Equal(list, []any{"maxmemory", "128974848"}) {
		t.Errorf("CONFIG GET: %v, %v", got, err)
	}
	var refused Error
	if _, err := s.Do(ctx, "LLEN", "a"); !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		t.Errorf("LLEN of a string: %v, want an Error WRONGTYPE", err)
	}
}

func TestServerTellsWhatItCounts(t *testing.T) {
	s := Start(t)
	ctx := short(t)
	for _, args := range [][]string{
		{"SET", "stays", "1"},
		{"SET", "goes", "1", "PX", "100000"},
		{"SET", "stays too", "1"},
	} {
		if _, err := s.Do(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Do(ctx, "INCRBY", "stays", "x"); err == nil {
		t.Fatal("INCRBY x: no error")
	}
	stats, err := s.CommandStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := stats["set"]; got.Calls != 3 || got.Time <= 0 {
		t.Errorf("of SET it counts %+v, want 3 calls that took time", got)
	}
	if got := stats["incrby"]; got.Calls != 1 || got.Failed != 1 {
		t.Errorf("of INCRBY it counts %+v, want a call that failed", got)
	}
	if cpu, err := s.CPU(ctx); cpu <= 0 || err != nil {
		t.Errorf("it has used %v of processor time, %v", cpu, err)
	}
	keys, err := s.KeysWithoutTTL(ctx)
	slices.Sort(keys)
	if err != nil || !slices.Equal(keys, []string{"stays", "stays too"}) {
		t.Errorf("keys without TTL: %q, %v", keys, err)
	}
}

func TestPauseAndResume(t *testing.T) {
	s := Start(t)
	ctx := short(t)
	c, err := s.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := c.Do(late, "PING"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server answers, or fails with %v; want %v", err, context.DeadlineExceeded)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Text(ctx, "PING"); got != "PONG" || err != nil {
		t.Errorf("PING after Resume: %q, %v", got, err)
	}
}

func TestCancelEndsACall(t *testing.T) {
	s := Start(t)
	c, err := s.Dial(short(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := c.Do(ctx, "PING"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestKillAndRestart(t *testing.T) {
	s := Start(t)
	ctx := short(t)
	if _, err := s.Do(ctx, "SET", "a", "1"); err != nil {
		t.Fatal(err)
	}
	first, addr := s.PID(), s.Addr()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	within(t, 5*time.Second, "killing a paused server", s.Kill)
	if got := s.PID(); got != 0 {
		t.Errorf("a killed server has process id %d, want 0", got)
	}
	if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is there after Kill: %v", first, err)
	}
	if _, err := s.Do(ctx, "PING"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a killed server: %v, want %v", err, syscall.ECONNREFUSED)
	}
	if err := s.Pause(); err == nil {
		t.Error("Pause of a killed server: no error")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.Addr() != addr || s.PID() == first || s.PID() == 0 {
		t.Errorf("restarted at %s as %d, want at %s as another than %d", s.Addr(), s.PID(), addr, first)
	}
	if got, err := s.Do(ctx, "GET", "a"); got != nil || err != nil {
		t.Errorf("after Restart a is %v, %v; want no data", got, err)
	}
}

func TestLaunchShowsLoading(t *testing.T) {
	s := Start(t, Config(
		"enable-debug-command yes",
		"key-load-delay 1000",
		"loading-process-events-interval-bytes 1024",
	))
	ctx := short(t)
	for _, args := range [][]string{{"DEBUG", "POPULATE", "500"}, {"SAVE"}} {
		if _, err := s.Do(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, "the server to be loading", func(ctx context.Context) error {
		_, err := s.Do(ctx, "GET", "a")
		if err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
			return fmt.Errorf("GET: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Int(ctx, "DBSIZE"); got != 500 || err != nil {
		t.Errorf("after loading there are %d keys, %v; want 500", got, err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	var pid int
	var dir string
	t.Run("with a server", func(t *testing.T) {
		s := Start(t)
		pid, dir = s.PID(), s.dir
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
	})
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is left: %v", pid, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files are left: %v", err)
	}
}

func TestServerHasASocket(t *testing.T) {
	s := Start(t)
	c, err := net.Dial("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	conn := newConn(c)
	defer conn.Close()
	if got, err := conn.Do(short(t), "PING"); got != "PONG" || err != nil {
		t.Errorf("PING: %v, %v", got, err)
	}
}

func TestServerSpeaksTLS(t *testing.T) {
	s := Start(t, TLS())
	c, err := tls.Dial("tcp", s.TLSAddr(), s.TLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	conn := newConn(c)
	defer conn.Close()
	if got, err := conn.Do(short(t), "PING"); got != "PONG" || err != nil {
		t.Errorf("PING: %v, %v", got, err)
	}
	if c, err := tls.Dial("tcp", s.TLSAddr(), &tls.Config{MinVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("a client without the certificate trusts the server")
	}
}

func TestACL(t *testing.T) {
	s := Start(t, ACL("user default off", "user app on >secret ~app:* +get"))
	ctx := short(t)
	if _, err := s.Do(ctx, "SET", "app:a", "1"); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn := newConn(c)
	defer conn.Close()
	for _, step := range []struct {
		args []string
		err  string
	}{
		{[]string{"GET", "app:a"}, "NOAUTH"},
		{[]string{"AUTH", "app", "secret"}, ""},
		{[]string{"GET", "app:a"}, ""},
		{[]string{"GET", "other"}, "NOPERM"},
		{[]string{"SET", "app:a", "2"}, "NOPERM"},
	} {
		_, err := conn.Do(ctx, step.args...)
		if (err == nil) != (step.err == "") || err != nil && !strings.HasPrefix(err.Error(), step.err) {
			t.Errorf("%q: %v, want %q", step.args, err, step.err)
		}
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	_, err := New(Config("no-such-directive 1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("got %v, want what the server's log says", err)
	}
}

// The variable names another program than redis-server.
func TestVariableNamesTheProgram(t *testing.T) {
	found, err := program()
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "valkey-server")
	if err := os.Symlink(found, named); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_REDIS_SERVER", named)
	if got, err := program(); got != named || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, named)
	}
	t.Setenv("SLUICE_REDIS_SERVER", named+"-none")
	if _, err := New(); err == nil || !strings.Contains(err.Error(), "SLUICE_REDIS_SERVER") {
		t.Errorf("with a wrong path: %v", err)
	}
	t.Setenv("SLUICE_REDIS_SERVER", "")
	t.Setenv("PATH", t.TempDir())
	if _, err := New(); err == nil || !strings.Contains(err.Error(), "make test") {
		t.Errorf("without a server: %v, want a word of make test", err)
	}
}
