package resp

import (
	"bytes"
	"errors"
	"fmt"
)

// bounds are the largest commands that are read.
type bounds struct {
	args  int // the words of a command, its name included
	bytes int // the whole command as it is sent
}

var (
	// commandBounds are for clients that may give commands.
	commandBounds = bounds{args: 256, bytes: 64 << 10}
	// strangerBounds are for clients that have not authenticated yet.
	strangerBounds = bounds{args: 16, bytes: 4 << 10}
)

// longestHeader is the longest line that announces a length.
const longestHeader = 32

// errIncomplete means that a part of the command has not arrived yet.
var errIncomplete = errors.New("incomplete")

// protocolError is a command that cannot be read. The connection must end, because the beginning of the
// next command is unknown.
type protocolError struct{ problem string }

func (e *protocolError) Error() string { return "Protocol error: " + e.problem }

func broken(format string, args ...any) error { return &protocolError{fmt.Sprintf(format, args...)} }

// command is one command in a buffer.
type command struct {
	args [][]byte // parts of the buffer; empty for a command that means nothing
	size int      // the bytes of the command in the buffer
	// inline reports that the command is a line of words, as a person types it.
	inline bool
}

// parse reads the first command of a buffer. The error is errIncomplete or a *protocolError. It appends the words
// to args. The words of an inline command are unquoted in place, so a buffer is parsed once.
func parse(buf []byte, args [][]byte, most bounds) (c command, err error) {
	switch {
	case len(buf) == 0:
		return c, errIncomplete
	case buf[0] == '*':
		c, err = parseWords(buf, args, most)
	default:
		c, err = parseLine(buf, args, most)
	}
	if len(buf) >= most.bytes && errors.Is(err, errIncomplete) {
		return c, broken("a command has more than %d bytes", most.bytes)
	}
	return c, err
}

// parseWords reads a command whose words have lengths.
func parseWords(buf []byte, args [][]byte, most bounds) (c command, err error) {
	count, at, err := header(buf, 0, "multibulk")
	if err != nil {
		return c, err
	}
	switch {
	case count <= 0:
		return command{size: at}, nil
	case count > int64(most.args):
		return c, broken("invalid multibulk length: %d words are more than %d", count, most.args)
	}
	for range count {
		if at >= len(buf) {
			return c, errIncomplete
		}
		if buf[at] != '$' {
			return c, broken("expected '$', got %q", buf[at:at+1])
		}
		var length int64
		if length, at, err = header(buf, at, "bulk"); err != nil {
			return c, err
		}
		if length < 0 || length > int64(most.bytes-at-2) {
			return c, broken("invalid bulk length: a command has up to %d bytes", most.bytes)
		}
		end := at + int(length)
		if end+2 > len(buf) {
			return c, errIncomplete
		}
		if buf[end] != '\r' || buf[end+1] != '\n' {
			return c, broken("a word is longer than its length")
		}
		args, at = append(args, buf[at:end:end]), end+2
	}
	return command{args: args, size: at}, nil
}

// header reads a line of a type and a length, from an offset. It returns the offset of the next line. Only the
// count of a command may be -1, which means nothing.
func header(buf []byte, at int, what string) (length int64, next int, err error) {
	end := min(len(buf), at+longestHeader)
	i := at + 1
	for ; i < end && '0' <= buf[i] && buf[i] <= '9'; i++ {
		if i > at+10 {
			return 0, 0, tooLong(buf[at:end], what)
		}
		length = 10*length + int64(buf[i]-'0')
	}
	switch rest := buf[i:end]; {
	case len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n' && i > at+1:
		return length, i + 2, nil
	case bytes.IndexByte(rest, '\n') < 0:
		return 0, 0, tooLong(buf[at:end], what)
	case what == "multibulk" && bytes.HasPrefix(buf[at+1:], []byte("-1\r\n")):
		return -1, at + 5, nil
	}
	return 0, 0, broken("invalid %s length", what)
}

// tooLong returns why a line without a valid length cannot be read. The line counts as incomplete while its end may
// still arrive.
func tooLong(line []byte, what string) error {
	switch {
	case bytes.IndexByte(line, '\n') >= 0:
		return broken("invalid %s length", what)
	case len(line) == longestHeader:
		return broken("too big %s count string", what)
	}
	return errIncomplete
}

// parseLine reads an inline command.
func parseLine(buf []byte, args [][]byte, most bounds) (c command, err error) {
	end := bytes.IndexByte(buf[:min(len(buf), most.bytes)], '\n')
	if end < 0 {
		return c, errIncomplete
	}
	line := bytes.TrimSuffix(buf[:end], []byte{'\r'})
	c = command{size: end + 1, inline: true}
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 {
			c.args = args
			return c, nil
		}
		if len(args) == most.args {
			return c, broken("more than %d words", most.args)
		}
		word, rest, ok := unquote(line)
		if !ok {
			return c, broken("unbalanced quotes in request")
		}
		args, line = append(args, word), rest
	}
}

func isSpace(b byte) bool {
	return b == ' ' || b == '\t' || b == '\r' || b == '\v' || b == '\f' || b == 0
}

// unquote reads the first word of a line, and writes it over the line without its quotes.
func unquote(line []byte) (word, rest []byte, ok bool) {
	n, quote := 0, byte(0)
	for i := 0; i < len(line); i++ {
		b := line[i]
		switch {
		case quote == 0 && isSpace(b):
			return line[:n:n], line[i:], true
		case quote == 0 && (b == '"' || b == '\''):
			quote = b
			continue
		case b == quote && quote != 0:
			if i+1 < len(line) && !isSpace(line[i+1]) {
				return nil, nil, false // a word ends with its quote
			}
			quote = 0
			continue
		case quote == '\'' && b == '\\' && i+1 < len(line) && line[i+1] == '\'':
			i++
			b = '\''
		case quote == '"' && b == '\\' && i+1 < len(line):
			b, i = escaped(line, i+1)
		}
		line[n] = b
		n++
	}
	return line[:n:n], nil, quote == 0
}

// escaped reads what comes after a backslash in double quotes. It returns the byte, and the offset of the last
// character.
func escaped(line []byte, at int) (b byte, last int) {
	switch line[at] {
	case 'n':
		return '\n', at
	case 'r':
		return '\r', at
	case 't':
		return '\t', at
	case 'b':
		return '\b', at
	case 'a':
		return '\a', at
	case 'x':
		if at+2 < len(line) {
			high, ok := hex(line[at+1])
			low, also := hex(line[at+2])
			if ok && also {
				return high<<4 | low, at + 2
			}
		}
	}
	return line[at], at
}

func hex(b byte) (digit byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}
