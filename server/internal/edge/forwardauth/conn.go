package forwardauth

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// refresh is how old a deadline may become before it is set again. So a busy connection sets few deadlines.
const refresh = time.Second

// conn is one connection of a gateway.
type conn struct {
	net.Conn
	o      *ServerOptions
	remote string
	from   io.LimitedReader // the connection, up to the bound of a head
	in     *bufio.Reader
	out    []byte
	w      writer

	mu      sync.Mutex
	leaving bool
	read    time.Time // when the read deadline was set
	write   time.Time // when the write deadline was set
}

func newConn(c net.Conn, o *ServerOptions) *conn {
	s := &conn{Conn: c, o: o, remote: c.RemoteAddr().String(), from: io.LimitedReader{R: c}}
	s.in = bufio.NewReader(&s.from)
	s.w.header = make(http.Header, 8)
	return s
}

// Run answers requests until the connection should be closed.
func (c *conn) Run() (unread bool) {
	defer func() {
		if reason := recover(); reason != nil {
			c.o.Panicked(reason) // and this connection ends
		}
	}()
	for {
		c.from.N = int64(c.o.HeadBytes) + int64(c.in.Size())
		c.expect(time.Now())
		if _, err := c.in.Peek(1); err != nil {
			return false
		}
		r, err := c.next()
		if err != nil {
			return c.reject(err)
		}
		if !c.serve(r) {
			return true
		}
	}
}

// expect sets the deadline of the next request.
func (c *conn) expect(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leaving && now.Sub(c.read) > refresh {
		c.read = now
		_ = c.SetReadDeadline(now.Add(c.o.Idle + refresh)) // an error shows when it reads
	}
}

// until sets a deadline that holds only until the next request. A connection that is leaving keeps its deadline.
func (c *conn) until(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leaving {
		c.read = time.Time{}
		_ = c.SetReadDeadline(deadline) // an error shows when it reads
	}
}

// Leave lets the connection be used for Linger, and then ends it.
func (c *conn) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = true
	_ = c.SetReadDeadline(time.Now().Add(c.o.Linger)) // the same
}

// rearm sets the deadline that a connection has between requests.
func (c *conn) rearm() {
	if c.isLeaving() {
		c.Leave()
		return
	}
	c.until(time.Now().Add(c.o.Idle))
}

func (c *conn) isLeaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaving
}

var (
	endOfHead  = []byte("\r\n\r\n")
	errVersion = errors.New("forwardauth: the request is not of HTTP/1")
	errName    = errors.New("forwardauth: the name of a header has a space")
)

// next reads the head of a request. Nearly always it has come as a whole, and needs no deadline.
func (c *conn) next() (*http.Request, error) {
	if head, _ := c.in.Peek(c.in.Buffered()); !bytes.Contains(head, endOfHead) {
		c.until(time.Now().Add(c.o.Head))
	}
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil, err
	}
	if r.ProtoMajor != 1 {
		return nil, errVersion
	}
	for name := range r.Header {
		if strings.IndexByte(name, ' ') >= 0 {
			return nil, errName // package net/http leaves that to its server
		}
	}
	r.RemoteAddr = c.remote
	return r, nil
}

// reject answers a request that cannot be read.
func (c *conn) reject(err error) (unread bool) {
	var late net.Error
	status := "400 Bad Request"
	switch {
	case c.from.N <= 0:
		status = "431 Request Header Fields Too Large"
	case errors.As(err, &late), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false // nobody is there
	}
	c.out = append(c.out[:0], "HTTP/1.1 "+status+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"...)
	_ = c.flush() // the connection ends in any case
	return true
}

// serve answers a request, and reports whether the connection goes on.
func (c *conn) serve(r *http.Request) bool {
	ctx := &watched{Context: c.o.Context, conn: c}
	w := &c.w
	clear(w.header)
	w.status, w.body = 0, w.body[:0]
	c.o.Handler.ServeHTTP(w, r.WithContext(ctx))
	if ctx.end() {
		return false
	}
	last := r.Close || r.ProtoMinor == 0 || r.ContentLength != 0 || c.isLeaving() // http.ReadRequest hides an encoding over HTTP/1.0
	c.out = w.appendTo(c.out[:0], r, last)
	return c.flush() == nil && !last
}

// flush sends the answer.
func (c *conn) flush() error {
	if now := time.Now(); now.Sub(c.write) > refresh {
		c.write = now
		if err := c.SetWriteDeadline(now.Add(c.o.Write + refresh)); err != nil {
			return err
		}
	}
	_, err := c.Conn.Write(c.out)
	if cap(c.out) > mostKept {
		c.out = nil
	}
	if cap(c.w.body) > mostKept {
		c.w.body = nil
	}
	return err
}

// mostKept bounds the buffer that a connection keeps for the next answer.
const mostKept = 16 << 10

// writer collects an answer.
type writer struct {
	header http.Header
	status int
	body   []byte
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p...)
	return len(p), nil
}

// appendTo appends the answer. Its length is always known, so the header need not have it.
func (w *writer) appendTo(out []byte, r *http.Request, last bool) []byte {
	w.WriteHeader(http.StatusOK)
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(w.status), 10)
	out = append(out, ' ')
	out = append(out, http.StatusText(w.status)...)
	out = append(out, "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(w.body)), 10)
	if last {
		out = append(out, "\r\nConnection: close"...)
	}
	for name, lines := range w.header {
		if name == "Content-Length" || name == "Connection" {
			continue
		}
		for _, line := range lines {
			out = append(out, "\r\n"...)
			out = append(out, name...)
			out = append(out, ": "...)
			out = append(out, oneLine(line)...)
		}
	}
	out = append(out, "\r\n\r\n"...)
	if r.Method == http.MethodHead {
		return out
	}
	return append(out, w.body...)
}

// oneLine returns a text without line breaks.
func oneLine(text string) string {
	if strings.IndexByte(text, '\r') < 0 && strings.IndexByte(text, '\n') < 0 {
		return text
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}
