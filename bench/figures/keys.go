package figures

import "math/bits"

// KeyLen is the length of every key in bytes. An account's id or an address with its port has as many.
const KeyLen = 18

// AppendKey appends the text of key i with this first letter. Different keys have different texts, in
// no order.
func AppendKey(text []byte, letter byte, i uint64) []byte {
	const digits = "0123456789abcdef"
	// Odd factors and rotations can be undone, so that no two texts are equal.
	h := bits.RotateLeft64(i*0x9E3779B97F4A7C15, 32) * 0xD6E8FEB86659FD93
	text = append(text, letter, ':')
	for shift := 60; shift >= 0; shift -= 4 {
		text = append(text, digits[h>>shift&15])
	}
	return text
}

// Key returns the text of key i with this first letter.
func Key(letter byte, i int) string {
	return string(AppendKey(make([]byte, 0, KeyLen), letter, uint64(i)))
}
