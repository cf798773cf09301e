package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// plainAnswer is an answer of the kind that services give most: HTTP/1.1, with a length, and a head that came whole and
// has nothing special. It is read without a map of its headers. http.ReadResponse reads all other answers.
type plainAnswer struct {
	status int
	fields string // the lines of the head after the first one, without the last line end
	lines  int
	body   directBody
	rest   lengthBody
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
func (d *directConn) plainAnswer(method string) *plainAnswer {
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
	p := &plainAnswer{status: status, fields: string(fields), lines: lines}
	_, _ = d.in.Discard(end + len(headEnd)) // it is there
	p.rest = lengthBody{d.in, length}
	p.body = directBody{conn: d, body: &p.rest, keep: true}
	d.arrived()
	return p
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
		if !tokenBytes[c] {
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

// specialFields are the headers with a meaning for package http, by their lengths.
var specialFields = func() (all [32][][]byte) {
	for _, name := range []string{"Connection", "Transfer-Encoding", "Trailer", "Pragma"} {
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

// beginPlain writes the header of a plain answer, after ours.
func (a *answer) beginPlain(p *plainAnswer) {
	h := a.ResponseWriter.Header()
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
		switch name {
		case "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Upgrade":
			continue
		}
		values = append(values, textproto.TrimString(line[colon+1:]))
		value := values[len(values)-1 : len(values) : len(values)]
		if own := h[name]; len(own) > 0 {
			value = append(own[:len(own):len(own)], value...)
		}
		h[name] = value
	}
	a.written = true
	a.WriteHeader(p.status)
}

// atOnce is the size of the largest body that is written from the buffer of the upstream's connection. The server usually
// takes it without a write to the client, so that the connection is not held.
const atOnce = 2 << 10

// passPlain passes a plain answer on.
func (p *Proxy) passPlain(a *answer, plain *plainAnswer, c *upstreamConn) {
	defer plain.body.Close() // gives up what is left of it
	if plain.rest.left == 0 {
		plain.body.end(io.EOF)
	}
	a.beginPlain(plain)
	if plain.rest.left == 0 {
		return
	}
	if left := plain.rest.left; left <= atOnce && int64(plain.rest.in.Buffered()) >= left {
		piece, _ := plain.rest.in.Peek(int(left)) // it is there
		_, err := a.Write(piece)
		_, _ = plain.rest.in.Discard(int(left))
		plain.body.end(io.EOF)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	if err := p.passBody(a, &plain.body, plain.rest.left, c); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// lengthBody reads a body of a known length.
type lengthBody struct {
	in   *bufio.Reader
	left int64
}

// Read reads a piece. The last one comes with io.EOF.
func (b *lengthBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}
