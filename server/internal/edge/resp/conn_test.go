package resp

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/listen/stream"
)

// Replies to commands that arrive together come in their order.
func TestRepliesComeInOrder(t *testing.T) {
	t.Parallel()
	to := serve(t, noRules, nil).dial()
	var text strings.Builder
	const n = 5000
	go func() {
		for range n {
			text.WriteString(encode("CL.THROTTLE", "k", "9999", "1", "3600") + "PING\r\n" + encode("GET", "x"))
		}
		_, _ = io.WriteString(to, text.String())
	}()
	for i := range n {
		if got := to.reply(); !strings.HasPrefix(got, "[0 10000 ") {
			t.Fatalf("reply %d to CL.THROTTLE is %s", i, got)
		}
		if got := to.reply(); got != "PONG" {
			t.Fatalf("reply %d to PING is %s", i, got)
		}
		if got := to.reply(); !strings.HasPrefix(got, "-ERR unknown command 'GET'") {
			t.Fatalf("reply %d to GET is %s", i, got)
		}
	}
}

// A command may come in parts of any size.
func TestCommandsComeInParts(t *testing.T) {
	t.Parallel()
	to := serve(t, noRules, nil).dial()
	long := strings.Repeat("x", 60_000)
	text := encode("ECHO", "short") + encode("ECHO", long) + encode("PING")
	for _, size := range []int{1, 7, 4096, len(text)} {
		for rest := text; len(rest) > 0; {
			n := min(size, len(rest))
			if size == 1 && len(rest) < len(text)-200 && len(rest) > 200 {
				n = len(rest) - 200 // the middle at once, or the test takes long
			}
			to.send(rest[:n])
			rest = rest[n:]
		}
		if got := to.reply(); got != "short" {
			t.Fatalf("parts of %d: %.20s", size, got)
		}
		if got := to.reply(); got != long {
			t.Fatalf("parts of %d: %.20s, %d bytes", size, got, len(got))
		}
		if got := to.reply(); got != "PONG" {
			t.Fatalf("parts of %d: %.20s", size, got)
		}
	}
}

// What cannot be a command is answered with an error, and the connection ends.
func TestMalformedCommandsEndTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	for _, c := range []struct{ give, want string }{
		{"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length"},
		{"*100000000\r\n", "-ERR Protocol error: invalid multibulk length"},
		{"*1\r\n$70000\r\n", "-ERR Protocol error: invalid bulk length"},
		{strings.Repeat("x", 70_000), "-ERR Protocol error: a command has more than 65536 bytes"},
		{"*257\r\n", "-ERR Protocol error: invalid multibulk length"},
		// A browser sends these for a web page of any origin.
		{"POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nCL.THROTTLE victim 0 1 1000\r\n", "-ERR unknown command 'POST'"},
		{"GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\n", "-ERR unknown command 'GET'"},
		{"\x16\x03\x01\x02\x00\x01\n", "-ERR unknown command '??"},
	} {
		to := s.dial()
		to.send(c.give)
		if got := to.reply(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%.40q: %q, want %s", c.give, got, c.want)
		}
		if got := to.reply(); got != "closed: EOF" {
			t.Errorf("%.40q: the connection should end: %s", c.give, got)
		}
	}
	if len(s.seen()) > 0 {
		t.Errorf("a web page got decisions: %v", s.seen())
	}
}

// A client that sends commands and never reads makes the server hold a bounded amount, and stop. The test is not
// parallel, because it measures the heap.
func TestClientNeverReads(t *testing.T) {
	s := serve(t, noRules, func(o *Options) { o.Write = 100 * time.Millisecond })
	to := s.dial()
	echo := []byte(encode("ECHO", strings.Repeat("x", 50_000)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sent := 0
	for sent < 1<<30 {
		n, err := to.Write(echo)
		sent += n
		if err != nil {
			break
		}
	}
	runtime.ReadMemStats(&after)
	if sent >= 1<<30 {
		t.Errorf("the server read %d bytes of a client that reads nothing", sent)
	}
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// pipe runs a connection in a bubble of simulated time.
func pipe(t *testing.T, change func(*Options)) (client net.Conn, c *conn, ended chan struct{}) {
	t.Helper()
	p, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d, err := policy.NewDecider(p, store)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Decider: d}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	client, served := net.Pipe()
	c, ended = s.open(&stream.Conn{Conn: served}), make(chan struct{})
	go func() {
		c.Run()
		_ = served.Close()
		close(ended)
	}()
	return client, c, ended
}

// lasts returns after how long a connection ends.
func lasts(ended chan struct{}) time.Duration {
	began := time.Now()
	<-ended
	return time.Since(began)
}

func TestClientsMustSendAndReadInTime(t *testing.T) {
	t.Parallel()
	read := func(client net.Conn) { _, _ = io.Copy(io.Discard, client) }
	for _, c := range []struct {
		name        string
		change      func(*Options)
		do          func(client net.Conn)
		least, most time.Duration
	}{
		{"nothing comes", nil, read, 2 * time.Minute, 3 * time.Minute},
		{"a client without the token", func(o *Options) { o.Verify = func(string) (known, decides bool) { return false, false } }, read, 10 * time.Second, 10 * time.Second},
		{"a stranger that keeps talking", func(o *Options) { o.Verify = func(string) (known, decides bool) { return false, false } }, func(client net.Conn) {
			go read(client)
			for {
				if _, err := io.WriteString(client, "PING\r\n"); err != nil {
					return
				}
				<-time.After(time.Second)
			}
		}, 10 * time.Second, 10 * time.Second},
		{"a command that never ends", nil, func(client net.Conn) {
			go read(client)
			for {
				if _, err := io.WriteString(client, "x"); err != nil {
					return
				}
				<-time.After(time.Second)
			}
		}, 10 * time.Second, 10 * time.Second},
		{"a client that never reads", nil, func(client net.Conn) { _, _ = io.WriteString(client, "PING\r\n") }, 30 * time.Second, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _, ended := pipe(t, c.change)
				left := make(chan struct{})
				go func() {
					defer close(left)
					c.do(client)
				}()
				if got := lasts(ended); got < c.least || got > c.most {
					t.Errorf("the connection lasts %v, want %v to %v", got, c.least, c.most)
				}
				_ = client.Close()
				<-left
			})
		})
	}
}

// A client that gives a command from time to time is never idle for too long.
func TestActiveConnectionStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _, ended := pipe(t, nil)
		buf := make([]byte, 16)
		for range 100 {
			<-time.After(110 * time.Second)
			if _, err := io.WriteString(client, "PING\r\n"); err != nil {
				t.Fatal(err)
			}
			if n, err := client.Read(buf); err != nil || !bytes.Equal(buf[:n], []byte("+PONG\r\n")) {
				t.Fatalf("the reply to PING is %q, %v", buf[:n], err)
			}
		}
		_ = client.Close()
		<-ended
	})
}

// A server that ends answers what has arrived, and ends connections that are idle.
func TestCommandsThatArrivedAreAnsweredAtTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	idle, busy := s.dial(), s.dial()
	if got := idle.do("PING"); got != "PONG" {
		t.Fatalf("the reply to PING is %s", got)
	}
	busy.send(strings.Repeat("PING\r\n", 100))
	if got := busy.reply(); got != "PONG" {
		t.Fatalf("the reply to the first PING is %s", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), edgetest.Patience)
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, idle) }()
	done := make(chan error, 1)
	go func() { done <- s.server.Shutdown(ctx) }()
	for i := range 99 {
		if got := busy.reply(); got != "PONG" {
			t.Fatalf("reply %d at the end is %s, want PONG", i, got)
		}
	}
	if got := busy.reply(); got != "closed: EOF" {
		t.Errorf("after the last reply, the connection should end: %s", got)
	}
	_, _ = busy.Close(), idle.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := s.server.Sessions(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// A busy client does not keep the server from ending.
func TestShutdownWhileBusy(t *testing.T) {
	t.Parallel()
	s := serve(t, noRules, nil)
	to := s.dial()
	go func() {
		for {
			if _, err := io.WriteString(to, "PING\r\n"); err != nil {
				return
			}
		}
	}()
	if got := to.reply(); got != "PONG" {
		t.Fatalf("the reply to PING is %s", got)
	}
	go func() { _, _ = io.Copy(io.Discard, to.In) }()
	ctx, cancel := context.WithTimeout(context.Background(), edgetest.Patience)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
