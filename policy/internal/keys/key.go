package keys

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"unsafe"

	"github.com/sluicehq/sluice"
)

// Value is what a request has for a part of a key: an address, or a text.
type Value struct {
	Text string
	Addr netip.Addr
	OK   bool
	// Repeated means that the request has several values, which are neither used nor missing.
	Repeated bool
	// Prefix is how many bits of an IPv6 address count.
	Prefix uint8
}

// String returns the value as keys have it.
func (v *Value) String() string {
	if v.Addr.IsValid() {
		return string(v.appendAddress(nil))
	}
	return v.Text
}

// appendAddress appends the address as keys have it: the same text for all spellings, and for all IPv6
// addresses of a prefix.
func (v *Value) appendAddress(dst []byte) []byte {
	addr := v.Addr.Unmap().WithZone("")
	if addr.Is4() || v.Prefix == 128 {
		return addr.AppendTo(dst)
	}
	p, _ := addr.Prefix(int(v.Prefix)) // fails only for a prefix out of bounds
	return p.AppendTo(dst)
}

// Ref is a key that is not made yet: one existing text, or a piece of a Buffer. It has four small fields, so that functions
// return it in registers: a decision takes a tenth longer otherwise.
type Ref struct {
	text       string
	start, end int32
	parts      int32 // negative if a part is missing
}

// IsLacking reports whether a part is missing.
func (k Ref) IsLacking() bool { return k.parts < 0 }

// len returns the number of parts.
func (k Ref) len() int { return int(max(k.parts, -k.parts)) }

// Text returns the key of one text.
func Text(text string) Ref { return Ref{text: text, parts: 1} }

// Key returns the key once the buffer has become a string.
func (k Ref) Key(buffer string) sluice.Key {
	if k.end > k.start {
		return sluice.EncodedKey(buffer[k.start:k.end], k.len())
	}
	return sluice.EncodedKey(k.text, k.len())
}

// View returns the key without memory of its own. It is valid until the buffer changes.
func (k Ref) View(b *Buffer) sluice.Key { return sluice.EncodedKey(k.view(b), k.len()) }

// view returns the text of the key. It is valid until the buffer changes.
func (k Ref) view(b *Buffer) string {
	if k.end > k.start {
		return unsafe.String(&b.bytes[k.start], k.end-k.start) //nolint:gosec // the bounds are of one key of the buffer
	}
	return k.text
}

// keptBytes is the size of the largest buffer that is kept for another request.
const keptBytes = 16 << 10

// Buffer holds the keys of a request. The zero Buffer is ready to use.
type Buffer struct {
	bytes []byte
	// address is the key that was made only of the client's address, if one was.
	address Ref
	prefix  uint8
}

// IsEmpty reports whether the buffer holds no key. Keys of one text are not in it.
func (b *Buffer) IsEmpty() bool { return len(b.bytes) == 0 }

// String returns the text of all keys, for Ref.Key.
func (b *Buffer) String() string { return string(b.bytes) }

// Reset removes all keys.
func (b *Buffer) Reset() {
	b.address = Ref{}
	if b.bytes = b.bytes[:0]; cap(b.bytes) > keptBytes {
		b.bytes = nil
	}
}

// Add makes the key of some values. lacking says that some are missing.
//
// A missing value is empty in the key. One more part at the end of the key lists the missing ones, so that no
// value is mistaken for a missing one.
func (b *Buffer) Add(values []Value, lacking bool) Ref {
	if len(values) == 1 && !lacking {
		if v := &values[0]; !v.Addr.IsValid() {
			return Text(v.Text)
		}
		return b.addAddress(&values[0])
	}
	dst, parts := b.bytes, len(values)
	for i := range values {
		if v := &values[i]; v.Addr.IsValid() {
			dst = append(dst, 0)
			at := len(dst)
			dst = v.appendAddress(dst)
			dst[at-1] = byte(len(dst) - at) // shorter than 128, so the length is one byte
		} else {
			dst = sluice.AppendKeyPart(dst, v.Text)
		}
	}
	if lacking {
		dst = appendLacking(dst, values)
		parts = -parts - 1
	}
	k := Ref{start: int32(len(b.bytes)), end: int32(len(dst)), parts: int32(parts)}
	b.bytes = dst
	return k
}

// appendLacking appends the part that lists the missing values.
func appendLacking(dst []byte, values []Value) []byte {
	var text [64]byte
	which := append(text[:0], "missing"...)
	for i := range values {
		if !values[i].OK {
			which = strconv.AppendInt(append(which, ' '), int64(i+1), 10)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(which)))
	return append(dst, which...)
}

// addAddress makes the key of one address, or returns the key that was made before.
func (b *Buffer) addAddress(v *Value) Ref {
	if b.address.end > b.address.start && b.prefix == v.Prefix {
		return b.address
	}
	k := Ref{start: int32(len(b.bytes)), parts: 1}
	b.bytes = v.appendAddress(b.bytes)
	k.end = int32(len(b.bytes))
	b.address, b.prefix = k, v.Prefix
	return k
}

// IsEqual reports whether two keys of the buffer are equal.
func (b *Buffer) IsEqual(k, o Ref) bool {
	return k.parts == o.parts && k.text == o.text && string(b.bytes[k.start:k.end]) == string(b.bytes[o.start:o.end])
}
