package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// Error is an error reply, as the server wrote it.
type Error string

func (e Error) Error() string { return string(e) }

// A Conn is a connection to a server, for raw commands. It is for one goroutine.
type Conn struct {
	c net.Conn
	r *bufio.Reader
}

// Do sends one command and returns its reply: a string, an int64, nil, or a []any
// of those and of Error. An error reply is an error of type Error; after any other
// error, the connection is of no use.
func (c *Conn) Do(ctx context.Context, args ...string) (any, error) {
	release, err := c.bound(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.send(args); err != nil {
		return nil, c.failed(ctx, err)
	}
	v, err := c.receive()
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	if e, ok := v.(Error); ok {
		return nil, e
	}
	return v, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

func newConn(c net.Conn) *Conn { return &Conn{c: c, r: bufio.NewReader(c)} }

// bound holds the connection to the context's deadline and end.
func (c *Conn) bound(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := c.c.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }, nil
}

func (c *Conn) failed(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("redistest: %w: %w", ended, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The connection's deadline is the context's, and may be noticed first.
		return fmt.Errorf("redistest: %w: %w", context.DeadlineExceeded, err)
	}
	return fmt.Errorf("redistest: %w", err)
}

func (c *Conn) send(args []string) error {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := c.c.Write(b)
	return err
}

func (c *Conn) receive() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("a line that is not a reply: %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return Error(text), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("a line that is not a reply: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case (kind == '$' || kind == '*') && n < 0:
		return nil, nil
	case kind == '$':
		return c.bulk(n)
	case kind == '*':
		list := make([]any, 0, min(n, 1024))
		for range n {
			v, err := c.receive()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a reply of unknown kind: %q", line)
}

func (c *Conn) bulk(n int64) (string, error) {
	if n > 512<<20 {
		return "", errors.New("a reply longer than a server sends")
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
