package rls

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// appendNumber appends a number, unless it is zero, the default.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendText appends a text, unless it is empty, the default.
func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// appendBytes appends bytes, unless there are none.
func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// appendBegin begins a message inside the message. It leaves a byte for the size, which appendEnd fills in.
func appendBegin(b []byte, field protowire.Number) (_ []byte, begin int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

// appendEnd ends the message that began at an index. A size of more than a byte moves the message.
func appendEnd(b []byte, begin int) []byte {
	size := uint64(len(b) - begin)
	more := protowire.SizeVarint(size) - 1
	if more == 0 {
		b[begin-1] = byte(size)
		return b
	}
	for range more {
		b = append(b, 0)
	}
	copy(b[begin+more:], b[begin:begin+int(size)])
	protowire.AppendVarint(b[begin-1:begin-1], size)
	return b
}
