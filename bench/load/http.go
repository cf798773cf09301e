package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// HTTP makes one request over several connections, each of which one caller keeps. The answer must be 200 with a length.
type HTTP struct {
	address string
	request []byte
	conns   []*Conn
}

// NewHTTP returns a load of one request. The callers connect when they make their first call.
func NewHTTP(address string, request []byte, callers int) *HTTP {
	return &HTTP{address, request, make([]*Conn, callers)}
}

// Caller returns the function with which a caller makes the request.
func (h *HTTP) Caller(i int) (call func() error) {
	return func() (err error) {
		if h.conns[i] == nil {
			if h.conns[i], err = Dial(h.address); err != nil {
				return err
			}
		}
		return h.conns[i].Do(h.request)
	}
}

// Close closes the connections.
func (h *HTTP) Close() {
	for _, c := range h.conns {
		if c != nil {
			_ = c.Close() // the load has ended
		}
	}
}

// A Conn is a connection over HTTP/1.1. It is not safe for concurrent use.
type Conn struct {
	net.Conn
	in *bufio.Reader
}

// Dial connects to a server.
func Dial(address string) (*Conn, error) {
	c, err := net.Dial("tcp", address) //nolint:noctx // the caller closes it
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReader(c)}, nil
}

var errAnswer = errors.New("the server did not answer 200 with a length")

// chunks is the length of an answer that comes in chunks.
const chunks = -2

// Do makes a request, and reads its answer with as little work as possible.
func (c *Conn) Do(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	length, err := c.head()
	switch {
	case err != nil:
		return err
	case length >= 0:
		_, err := c.in.Discard(length)
		return err
	case length != chunks:
		return errAnswer
	}
	for size := uint64(1); size > 0; {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if size, err = strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31); err != nil {
			return err
		}
		if _, err := c.in.Discard(int(size) + len("\r\n")); err != nil {
			return err
		}
	}
	return nil
}

// head reads the status and the headers of an answer, and returns the length of its body.
func (c *Conn) head() (length int, err error) {
	length = -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return 0, fmt.Errorf("%w but %q", errAnswer, line)
		}
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			length = chunks
		}
	}
}
