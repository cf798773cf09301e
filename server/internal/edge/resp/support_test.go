package resp

import (
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

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

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
	s := &service{tb: tb, now: start}
	d := edgetest.Decider(tb, rules, s.clock)
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
	var err error
	if s.server, err = New(o); err != nil {
		tb.Fatal(err)
	}
	s.address = edgetest.Serve(tb, s.server)
	return s
}

// client is a connection to a server.
type client struct {
	*edgetest.Conn
	tb testing.TB
}

func (s *service) dial() *client {
	s.tb.Helper()
	return &client{edgetest.Dial(s.tb, s.address), s.tb}
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
	line, err := c.In.ReadString('\n')
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
		if _, err := io.ReadFull(c.In, text); err != nil {
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
