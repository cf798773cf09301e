package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/policyfile"
)

// patience is how long tests wait for what must come.
const patience = 10 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the time of a clock that tests set.
const start = int64(1_700_000_000_000_000)

// service is a server that listens.
type service struct {
	tb       testing.TB
	address  string
	server   *Server
	mu       sync.Mutex
	now      int64 // microseconds
	verdicts []string
}

func (s *service) clock() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// pass moves the clock.
func (s *service) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += int64(d / time.Microsecond)
}

// seen returns the verdicts so far.
func (s *service) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.verdicts...)
}

const noRules = "rules: [{name: other, key: client_ip, limit: {algorithm: token_bucket, rate: 1/s}}]\n"

// serve starts a server over rules; change may change its options.
func serve(tb testing.TB, rules string, change func(*Options)) *service {
	tb.Helper()
	f, err := policyfile.Parse("test.yaml", []byte("version: 1\n"+rules))
	if err != nil {
		tb.Fatal(err)
	}
	p, err := f.Policy()
	if err != nil {
		tb.Fatal(err)
	}
	s := &service{tb: tb, now: start}
	store, err := memory.New(memory.Options{MaxBytes: 16 << 20, Clock: s.clock})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := policy.NewDecider(p, store)
	if err != nil {
		tb.Fatal(err)
	}
	o := Options{Decider: d, Version: "test", OnVerdict: func(v *policy.Verdict, _ time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := ""
		if v.Rule != nil {
			name = v.Rule.Name + " "
		}
		s.verdicts = append(s.verdicts, name+v.Action.String())
	}}
	if change != nil {
		change(&o)
	}
	if s.server, err = New(o); err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.address = ln.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ln) }()
	tb.Cleanup(func() {
		if err := s.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			tb.Error(err)
		}
		if err := <-done; err != nil {
			tb.Error(err)
		}
		for deadline := time.Now().Add(patience); s.server.Sessions() > 0 && time.Now().Before(deadline); {
			<-time.After(time.Millisecond)
		}
	})
	return s
}

// client is a connection to a server.
type client struct {
	tb testing.TB
	net.Conn
	in *bufio.Reader
}

func (s *service) dial() *client {
	s.tb.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		s.tb.Fatal(err)
	}
	return &client{s.tb, c, bufio.NewReader(c)}
}

// encode returns a command as clients send it.
func encode(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

func (c *client) send(text string) {
	c.tb.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.tb.Fatal(err)
	}
}

// do gives a command, and returns the reply as text.
func (c *client) do(words ...string) string {
	c.tb.Helper()
	c.send(encode(words...))
	return c.reply()
}

// reply reads a reply: an integer as 1, a text as it is, an error with its minus, null as null, a list as [a b], a map as {k:v}.
func (c *client) reply() string {
	c.tb.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "closed: " + c.lost(err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case ':', '+':
		return line[1:]
	case '-':
		return line
	case '_':
		return "null"
	case '$':
		if n < 0 {
			return "null"
		}
		text := make([]byte, n+2)
		if _, err := io.ReadFull(c.in, text); err != nil {
			c.tb.Fatal(err)
		}
		return string(text[:n])
	case '*':
		parts := make([]string, 0, max(n, 0))
		for range n {
			parts = append(parts, c.reply())
		}
		return "[" + strings.Join(parts, " ") + "]"
	case '%':
		parts := make([]string, 0, max(n, 0))
		for range n {
			parts = append(parts, c.reply()+":"+c.reply())
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	c.tb.Fatalf("unknown reply %q", line)
	return ""
}

func (c *client) lost(err error) string {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return "nothing came"
	}
	return "EOF"
}
