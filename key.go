package sluice

import (
	"encoding/binary"
	"strings"
)

// Key identifies the client that a limit counts for, by an address, a user, or a combination of
// such parts. Different parts make different keys, whatever bytes they hold: the key of "a:b" and
// "c" is not the key of "a" and "b:c". The zero Key has no parts: it is one key for everybody.
//
// A Key is a value, cheap to copy, and compares with ==. It is safe for concurrent use.
type Key struct {
	// text is the only part, or all parts, each preceded by its length.
	text  string
	parts int
}

// StringKey returns the key of one part. It does not allocate.
func StringKey(part string) Key { return Key{part, 1} }

// NewKey returns the key of these parts, in this order.
func NewKey(parts ...string) Key {
	switch len(parts) {
	case 0:
		return Key{}
	case 1:
		return StringKey(parts[0])
	}
	n := 0
	for _, p := range parts {
		n += len(p) + binary.MaxVarintLen16
	}
	text := make([]byte, 0, n)
	for _, p := range parts {
		text = AppendKeyPart(text, p)
	}
	return Key{string(text), len(parts)}
}

// Parts returns the parts. It returns nil if the text of an EncodedKey is not an encoding.
func (k Key) Parts() []string {
	switch {
	case k.parts <= 0:
		return nil
	case k.parts == 1:
		return []string{k.text}
	}
	parts := make([]string, 0, min(k.parts, len(k.text)))
	rest := []byte(k.text)
	for len(rest) > 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil
		}
		parts = append(parts, string(rest[n:n+int(size)]))
		rest = rest[n+int(size):]
	}
	if len(parts) != k.parts {
		return nil
	}
	return parts
}

// String returns the parts for a person to read. Keep it out of logs: a key may be an
// address or a secret.
func (k Key) String() string { return strings.Join(k.Parts(), " · ") }
