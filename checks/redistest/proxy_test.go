package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// through connects to the server behind a proxy.
func through(t *testing.T, p *Proxy) *Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return newConn(c)
}

// must fails the test if a fault cannot be made.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ping(t *testing.T, c *Conn) {
	t.Helper()
	if got, err := c.Do(short(t), "PING"); got != "PONG" || err != nil {
		t.Fatalf("PING through the proxy: %v, %v", got, err)
	}
}

// A proxy passes large values on, of many connections at once.
func TestProxyPasses(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	value := strings.Repeat("a long value ", 100_000)
	var all sync.WaitGroup
	for range 8 {
		c := through(t, p)
		all.Go(func() {
			if _, err := c.Do(t.Context(), "SET", "a", value); err != nil {
				t.Error(err)
			}
			if got, err := c.Do(t.Context(), "GET", "a"); got != value || err != nil {
				t.Errorf("the value does not come back: %v", err)
			}
		})
	}
	all.Wait()
	got := p.Stats()
	if got.Accepted != 8 || got.Open != 8 || got.Unreachable != 0 || got.Cuts != 0 {
		t.Errorf("it counts %+v, want 8 connections and no faults", got)
	}
	if least := int64(8 * len(value)); got.ToServer < least || got.FromServer < least {
		t.Errorf("it counts %+v, want %d bytes at least", got, least)
	}
}

// A delayed proxy passes bytes on only after the delay.
func TestProxyDelays(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := through(t, p)
	ping(t, c)
	const delay = 50 * time.Millisecond
	must(t, p.Delay(delay))
	begun := time.Now()
	ping(t, c)
	if took := time.Since(begun); took < delay {
		t.Errorf("PING took %v, want %v at least", took, delay)
	}

	// What is under way together is late together, not one after the other.
	const callers = 20
	begun = time.Now()
	for range callers {
		must(t, c.send([]string{"PING"}))
	}
	for range callers {
		if got, err := c.receive(); got != "PONG" || err != nil {
			t.Fatal(got, err)
		}
	}
	if took := time.Since(begun); took > callers*delay/2 {
		t.Errorf("%d PINGs took %v, want about %v", callers, took, delay)
	}

	// Pass delivers at once what is late.
	must(t, p.Delay(time.Hour))
	must(t, c.send([]string{"PING"}))
	waitFor(t, func() bool { return calls(t, s, "ping") >= callers+3 })
	must(t, p.Pass())
	if got, err := c.receive(); got != "PONG" || err != nil {
		t.Fatal(got, err)
	}
}

// calls returns how often the server has run a command.
func calls(t *testing.T, s *Server, command string) int64 {
	t.Helper()
	stats, err := s.CommandStats(short(t))
	if err != nil {
		t.Fatal(err)
	}
	return stats[command].Calls
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	must(t, until(t.Context(), "the condition of the test", func(context.Context) error {
		if !done() {
			return errors.New("not yet")
		}
		return nil
	}))
}

// A proxy that holds passes nothing on until it passes again.
func TestProxyHolds(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := through(t, p)
	ping(t, c)
	must(t, p.Hold())
	must(t, c.send([]string{"INCR", "a"}))
	fresh := through(t, p)
	must(t, fresh.send([]string{"INCR", "b"}))
	waitFor(t, func() bool { return p.Stats().Open == 2 })
	for _, c := range []*Conn{c, fresh} {
		must(t, c.c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		if _, err := c.r.Peek(1); !isTimeout(err) {
			t.Errorf("while held: %v, want a timeout", err)
		}
		must(t, c.c.SetReadDeadline(time.Time{}))
	}
	if got, err := s.Do(short(t), "EXISTS", "a", "b"); got != int64(0) || err != nil {
		t.Errorf("the server has %v of the keys, %v; want none", got, err)
	}
	must(t, p.Pass())
	for _, c := range []*Conn{c, fresh} {
		if got, err := c.receive(); got != int64(1) || err != nil {
			t.Errorf("after Pass: %v, %v; want 1", got, err)
		}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestProxyCutsReplies(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	ctx := short(t)
	sha, err := s.Text(ctx, "SCRIPT", "LOAD", "return redis.call('INCR', 'a')")
	if err != nil {
		t.Fatal(err)
	}
	run := "*3\r\n$7\r\nEVALSHA\r\n$40\r\n" + sha + "\r\n$1\r\n0\r\n"
	ran := 0
	for _, n := range []int{0, 3} {
		must(t, p.Pass())
		old := through(t, p)
		ping(t, old)
		must(t, p.Cut("EvalSHA", n))
		for _, c := range []*Conn{old, through(t, p)} {
			ping(t, c) // no such request: nothing is cut
			// The name of the command comes in two parts.
			first, rest, _ := strings.Cut(run, "SHA")
			want := p.Stats().ToServer + int64(len(first))
			_, err := io.WriteString(c.c, first)
			must(t, err)
			waitFor(t, func() bool { return p.Stats().ToServer == want })
			_, err = io.WriteString(c.c, "SHA"+rest)
			must(t, err)
			ran++
			reply := fmt.Sprintf(":%d\r\n", ran)
			if got, err := io.ReadAll(c.r); string(got) != reply[:n] || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, reply[:n])
			}
		}
	}
	if got, err := s.Text(ctx, "GET", "a"); got != strconv.Itoa(ran) || err != nil {
		t.Errorf("the script has run %s times, %v; want %d", got, err, ran)
	}
	if got := p.Stats().Cuts; got != int64(ran) {
		t.Errorf("it counts %d cuts, want %d", got, ran)
	}
}

// A proxy that resets ends open and new connections with a reset.
func TestProxyResets(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := through(t, p)
	ping(t, c)
	must(t, p.Reset())
	if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection: %v, want %v", err, syscall.ECONNRESET)
	}
	fresh, err := net.Dial("tcp", p.Addr())
	if err == nil { // else it was reset before Dial returned
		defer fresh.Close()
		_, err = fresh.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection: %v, want %v", err, syscall.ECONNRESET)
	}
	must(t, p.Pass())
	c = through(t, p)
	ping(t, c)
	p.Drop()
	if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a dropped connection: %v, want %v", err, syscall.ECONNRESET)
	}
	ping(t, through(t, p))
}

// A proxy that refuses ends open connections and takes no new one.
func TestProxyRefuses(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := through(t, p)
	ping(t, c)
	for range 2 {
		must(t, p.Refuse())
		if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Errorf("an open connection: %v, want %v", err, syscall.ECONNRESET)
		}
		if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a new connection: %v, want %v", err, syscall.ECONNREFUSED)
		}
	}
	must(t, p.Pass())
	ping(t, through(t, p))
}

func TestProxyToADeadServer(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := through(t, p)
	ping(t, c)
	must(t, s.Kill())
	if _, err := c.r.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the server's end does not arrive: %v", err)
	}
	if _, err := through(t, p).r.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("a new connection does not end: %v", err)
	}
	if got := p.Stats().Unreachable; got != 1 {
		t.Errorf("it counts %d connections that it could not pass on, want 1", got)
	}
	must(t, s.Restart())
	ping(t, through(t, p))
}

// A proxy closes in any state, and ends its connections.
func TestProxyCloses(t *testing.T) {
	s := Start(t)
	for _, fault := range []func(*Proxy) error{
		(*Proxy).Pass, (*Proxy).Hold, (*Proxy).Reset, (*Proxy).Refuse,
		func(p *Proxy) error { return p.Delay(time.Hour) },
	} {
		p, err := NewProxy(s.Addr())
		must(t, err)
		c := through(t, p)
		ping(t, c)
		must(t, fault(p))
		_ = c.send([]string{"PING"}) // it may be reset already
		within(t, 5*time.Second, "Close", func() error { p.Close(); return nil })
		if got := p.Stats().Open; got != 0 {
			t.Errorf("%d connections are left", got)
		}
		if err := p.Pass(); err == nil {
			t.Error("Pass after Close: no error")
		}
	}

	// Also while the server is paused.
	p, err := NewProxy(s.Addr())
	must(t, err)
	ping(t, through(t, p))
	must(t, s.Pause())
	within(t, 5*time.Second, "Close with a paused server", func() error { p.Close(); return nil })
}
