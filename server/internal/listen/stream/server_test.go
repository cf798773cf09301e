package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo sends back what arrives, until the server drains.
func echo(c *Conn) bool {
	_, _ = io.Copy(c.Conn, c.Conn)
	return c.Draining()
}

// failing fails to accept at first, as a system without free files does.
type failing struct {
	net.Listener
	failures atomic.Int64
}

type busy struct{ error }

func (busy) Temporary() bool { return true }

func (f *failing) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, busy{errors.New("too many open files")}
	}
	return f.Listener.Accept()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// serve serves until the test ends.
func serve(t *testing.T, ln net.Listener) *Server {
	t.Helper()
	s := New(Options{Run: echo})
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = s.Close() // it may be closed
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func answers(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("the echo is %q, %v", buf, err)
	}
}

// After errors that pass, connections are accepted.
func TestTemporaryErrors(t *testing.T) {
	t.Parallel()
	ln := &failing{Listener: listen(t)}
	ln.failures.Store(3)
	serve(t, ln)
	answers(t, dial(t, ln))
}

// An error that does not pass ends Serve.
func TestLastingError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if err := New(Options{}).Serve(lasting{broken}); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

type lasting struct{ error }

func (l lasting) Accept() (net.Conn, error) { return nil, l.error }
func (lasting) Close() error                { return nil }
func (lasting) Addr() net.Addr              { return nil }

// Shutdown drains connections, connections that begin then too, and waits for them no longer than its context.
func TestShutdownDrainsConnections(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	s := serve(t, ln)
	c := dial(t, ln)
	answers(t, c)
	if n := s.Sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("while a connection drains: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the session's client reads %v", err)
	}
	_ = c.Close()
	late := dial(t, ln)
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a client that comes late reads %v", err)
	}
	_ = late.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// A session learns that the server drains, and not before.
func TestSessionsLearnThatTheServerDrains(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	drains := make(chan bool, 2)
	s := New(Options{Run: func(c *Conn) bool {
		drains <- c.Draining()
		_, _ = c.Read(make([]byte, 1)) // until the server drains
		drains <- c.Draining()
		return false
	}})
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	dial(t, ln)
	if <-drains {
		t.Error("a session drains from its beginning")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if !<-drains {
		t.Error("a session does not learn that the server drains")
	}
	if err := errors.Join(s.Close(), <-done); err != nil {
		t.Error(err)
	}
}

// Close cuts off the sessions that are left.
func TestCloseCutsOffSessions(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	s := serve(t, ln)
	c := dial(t, ln)
	answers(t, c)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}

// A server that was closed before it serves accepts nothing: it closes the listener, and Serve returns.
func TestCloseBeforeServe(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	s := New(Options{Run: echo})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Serve of a closed server returns %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Serve waits for connections although the server is closed")
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: Accept returns %v", err)
	}
}
