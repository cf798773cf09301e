package spoe

import (
	"encoding/binary"
	"net/netip"
)

// The types of values.
const (
	kindNull   = 0
	kindBool   = 1
	kindInt32  = 2
	kindUint32 = 3
	kindInt64  = 4
	kindUint64 = 5
	kindIPv4   = 6
	kindIPv6   = 7
	kindString = 8
	kindBinary = 9
)

// value is a typed value of a frame.
type value struct {
	kind  byte
	truth bool
	n     uint64
	addr  netip.Addr
	text  []byte // a part of the frame
}

// decoder reads the payload of a frame. After an error it returns zero values, and bad is set.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) fail() { d.rest, d.bad = nil, true }

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// varint reads a number as HAProxy writes it between peers: the first byte has four bits of it if it is 240 or more,
// and each further byte seven.
func (d *decoder) varint() uint64 {
	n := uint64(d.byte())
	if n < 240 {
		return n
	}
	for shift := 4; ; shift += 7 {
		if shift > 60 {
			d.fail()
			return 0
		}
		b := d.byte()
		n += uint64(b) << shift
		if b < 128 {
			return n
		}
	}
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) text() []byte { return d.bytes(d.varint()) }

func (d *decoder) value() (v value) {
	head := d.byte()
	v.kind = head & 0x0f
	switch v.kind {
	case kindNull:
	case kindBool:
		v.truth = head&0x10 != 0
	case kindInt32, kindUint32, kindInt64, kindUint64:
		v.n = d.varint()
	case kindIPv4:
		v.addr, _ = netip.AddrFromSlice(d.bytes(4))
	case kindIPv6:
		v.addr, _ = netip.AddrFromSlice(d.bytes(16))
	case kindString, kindBinary:
		v.text = d.text()
	default:
		d.fail()
	}
	return v
}

func appendVarint(b []byte, n uint64) []byte {
	if n < 240 {
		return append(b, byte(n))
	}
	b = append(b, byte(n)|240)
	for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

func appendText(b []byte, text string) []byte {
	return append(appendVarint(b, uint64(len(text))), text...)
}

// The functions append a typed value.

func appendBoolValue(b []byte, truth bool) []byte {
	if truth {
		return append(b, kindBool|0x10)
	}
	return append(b, kindBool)
}

func appendInt32Value(b []byte, n int32) []byte {
	return appendVarint(append(b, kindInt32), uint64(n))
}

func appendUint32Value(b []byte, n uint32) []byte {
	return appendVarint(append(b, kindUint32), uint64(n))
}

func appendStringValue(b []byte, text string) []byte { return appendText(append(b, kindString), text) }

// putLength writes the length of a frame that begins at an offset, before the frame.
func putLength(b []byte, at int) { binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4)) }
