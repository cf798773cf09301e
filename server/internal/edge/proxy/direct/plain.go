package direct

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Plain is an answer of the kind that services give most: HTTP/1.1, with a length, and a head that came whole and
// has nothing special. It is read without a map of its headers. http.ReadResponse reads all other answers.
type Plain struct {
	Status int
	// Left is how much of the body was not read yet.
	Left int64

	body
	fields string // the lines of the head after the first one, without the last line end
	lines  int
	in     *bufio.Reader
}

// lineEnd ends a line, and headEnd a head.
var (
	lineEnd = []byte("\r\n")
	headEnd = []byte("\r\n\r\n")
)

// plainStart begins the first line.
const plainStart = "HTTP/1.1 "

// plainAnswer reads the head of a plain answer to a request. It returns nil, and has read nothing, if the answer is not
// plain or its head has not arrived whole.
func (d *conn) plainAnswer(method string) *Plain {
	if method == http.MethodHead {
		return nil
	}
	arrived, _ := d.in.Peek(d.in.Buffered()) // it is there
	end := bytes.Index(arrived, headEnd)
	if end < 0 {
		return nil
	}
	first, fields, _ := bytes.Cut(arrived[:end], lineEnd)
	status, ok := plainStatus(first)
	if !ok {
		return nil
	}
	length, lines := int64(-1), 0
	for rest := fields; len(rest) > 0; lines++ {
		var line []byte
		line, rest, _ = bytes.Cut(rest, lineEnd)
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isPlainField(line, colon) {
			return nil
		}
		if name := line[:colon]; len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")) {
			if length >= 0 {
				return nil
			}
			if length = plainLength(bytes.Trim(line[colon+1:], " \t")); length < 0 {
				return nil
			}
		}
	}
	if length < 0 {
		return nil
	}
	p := &Plain{Status: status, Left: length, fields: string(fields), lines: lines, in: d.in}
	_, _ = d.in.Discard(end + len(headEnd)) // it is there
	p.body = body{conn: d, from: (*plainBody)(p), keep: true}
	d.arrived()
	return p
}

// AddTo adds the header of the answer to another header.
func (p *Plain) AddTo(h http.Header) {
	values := make([]string, 0, p.lines)
	for rest := p.fields; rest != ""; {
		line := rest
		if i := strings.Index(rest, "\r\n"); i >= 0 {
			line, rest = rest[:i], rest[i+len(lineEnd):]
		} else {
			rest = ""
		}
		colon := strings.IndexByte(line, ':')
		name := textproto.CanonicalMIMEHeaderKey(line[:colon])
		values = append(values, textproto.TrimString(line[colon+1:]))
		value := values[len(values)-1 : len(values) : len(values)]
		if own := h[name]; len(own) > 0 {
			value = append(own[:len(own):len(own)], value...)
		}
		h[name] = value
	}
}

// atOnce is the size of the largest body that is written from the buffer of the upstream's connection. The server usually
// takes it without a write to the client, so that the connection is not held.
const atOnce = 2 << 10

// Small returns the whole body, if it is short and has arrived. It is valid until the body is closed.
func (p *Plain) Small() ([]byte, bool) {
	if p.Left > atOnce || p.Left == 0 || int64(p.in.Buffered()) < p.Left {
		return nil, false
	}
	piece, _ := p.in.Peek(int(p.Left)) // it is there
	_, _ = p.in.Discard(len(piece))
	p.Left = 0
	return piece, true
}

// Close gives up what is left of the body.
func (p *Plain) Close() error {
	if p.conn != nil && p.Left == 0 {
		p.end(io.EOF)
	}
	return p.body.Close()
}

// plainStatus returns the status in a first line.
func plainStatus(line []byte) (int, bool) {
	const digits = len(plainStart)
	if len(line) < digits+3 || string(line[:digits]) != plainStart || len(line) > digits+3 && line[digits+3] != ' ' {
		return 0, false
	}
	status := 0
	for _, c := range line[digits : digits+3] {
		if c < '0' || c > '9' {
			return 0, false
		}
		status = 10*status + int(c-'0')
	}
	for _, c := range line[digits+3:] {
		if c < ' ' || c == 0x7f {
			return 0, false
		}
	}
	return status, status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// isPlainField reports whether a line is a header with nothing special: its name is a token that does not concern the
// connection or the framing, and its value has no control characters.
func isPlainField(line []byte, colon int) bool {
	for _, c := range line[:colon] {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	for _, c := range line[colon+1:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	for _, special := range specialFields[colon&31] {
		if bytes.EqualFold(line[:colon], special) {
			return false
		}
	}
	return true
}

// specialFields are the headers that concern the connection, or have a meaning for package http, by their lengths.
var specialFields = func() (all [32][][]byte) {
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Pragma",
		"Proxy-Authenticate", "Proxy-Authorization",
	} {
		all[len(name)] = append(all[len(name)], []byte(name))
	}
	return all
}()

// plainLength returns a length that consists of digits, and -1 for anything else.
func plainLength(value []byte) int64 {
	if len(value) == 0 || len(value) > 18 {
		return -1
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return -1
		}
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// plainBody reads the body of a plain answer.
type plainBody Plain

// Read reads a piece. The last one comes with io.EOF.
func (p *plainBody) Read(piece []byte) (int, error) {
	n, err := p.in.Read(piece[:min(int64(len(piece)), p.Left)])
	p.Left -= int64(n)
	switch {
	case p.Left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}
