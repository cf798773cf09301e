package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
)

// Arguments and replies of scripts are msgpack: integers, strings, and lists of them.

// appendInt appends an integer in its shortest form, as the server's cmsgpack does.
func appendInt(b []byte, n int64) []byte {
	switch u := uint64(n); {
	case n < 0:
		return appendNegative(b, n)
	case u <= 0x7f:
		return append(b, byte(u))
	case u <= math.MaxUint8:
		return append(b, 0xcc, byte(u))
	case u <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(u))
	case u <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(u))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), u)
	}
}

func appendNegative(b []byte, n int64) []byte {
	switch {
	case n >= -32:
		return append(b, byte(n))
	case n >= math.MinInt8:
		return append(b, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
	}
}

// appendText appends a string.
func appendText(b []byte, s string) []byte {
	switch n := len(s); {
	case n <= 31:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendList appends the head of a list of n items.
func appendList(b []byte, n int) []byte {
	if n <= 15 {
		return append(b, 0x90|byte(n))
	}
	return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
}

// errReply reports a reply that our scripts never give.
var errReply = errors.New("redisstore: the reply cannot be read; is another program writing under the prefix?")

// reader reads msgpack. After the first error it reads zeros.
type reader struct {
	rest string
	err  error
	// What a view says of a state under other numbers: when the request is admitted if nothing is
	// written until then, when nothing is left, and how many units are left now.
	awaits             bool
	until, reset, left int64
}

// fail sets the error, and drops the rest.
func (r *reader) fail() {
	r.rest, r.err = "", errReply
}

// more reports whether there is anything left.
func (r *reader) more() bool { return r.rest != "" }

// next cuts off n bytes.
func (r *reader) next(n int) string {
	if n < 0 || len(r.rest) < n {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// bytes reads a number of n bytes, the highest first.
func (r *reader) bytes(n int) (v uint64) {
	for _, b := range []byte(r.next(n)) {
		v = v<<8 | uint64(b)
	}
	return v
}

// int reads an integer.
func (r *reader) int() int64 {
	head := r.bytes(1)
	switch {
	case head <= 0x7f:
		return int64(head)
	case head >= 0xe0:
		return int64(int8(head))
	}
	switch head {
	case 0xcc:
		return int64(r.bytes(1))
	case 0xcd:
		return int64(r.bytes(2))
	case 0xce:
		return int64(r.bytes(4))
	case 0xd0:
		return int64(int8(r.bytes(1)))
	case 0xd1:
		return int64(int16(r.bytes(2)))
	case 0xd2:
		return int64(int32(r.bytes(4)))
	case 0xcf, 0xd3:
		return int64(r.bytes(8))
	}
	r.fail()
	return 0
}

// count reads an integer that is not negative and exact in a script.
func (r *reader) count() int64 {
	n := r.int()
	if n < 0 || n > exact {
		r.fail()
		return 0
	}
	return n
}

// text reads a string.
func (r *reader) text() string {
	head := r.bytes(1)
	switch {
	case head&0xe0 == 0xa0:
		return r.next(int(head & 0x1f))
	case head == 0xd9:
		return r.next(int(r.bytes(1)))
	case head == 0xda:
		return r.next(int(r.bytes(2)))
	case head == 0xdb:
		return r.next(int(r.bytes(4)))
	}
	r.fail()
	return ""
}

// ints skips n integers, or nil, and returns their text.
func (r *reader) ints(n int) string {
	if strings.HasPrefix(r.rest, "\xc0") {
		r.next(1)
		return ""
	}
	before := r.rest
	for range n {
		r.int()
	}
	return before[:len(before)-len(r.rest)]
}

// list reads the head of a list, and returns its length.
func (r *reader) list() int {
	var n uint64
	switch head := r.bytes(1); {
	case head&0xf0 == 0x90:
		n = head & 0x0f
	case head == 0xdc:
		n = r.bytes(2)
	case head == 0xdd:
		n = r.bytes(4)
	default:
		r.fail()
	}
	if n > uint64(len(r.rest)) { // an item has a byte at least
		r.fail()
		return 0
	}
	return int(n)
}

// isList reports whether a list comes next.
func (r *reader) isList() bool {
	return r.rest != "" && (r.rest[0]&0xf0 == 0x90 || r.rest[0] == 0xdc || r.rest[0] == 0xdd)
}
