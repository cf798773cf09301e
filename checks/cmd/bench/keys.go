package main

import (
	"math/bits"
	"math/rand"
	"strings"
)

// keyLen is the length of every key, in bytes: that of an account id or an
// address with its port.
const keyLen = 18

// appendKey appends the text of key i. Different i give different texts, in
// no order.
func appendKey(text []byte, i uint64) []byte {
	const digits = "0123456789abcdef"
	// Odd factors and rotations can be undone, so no two keys meet.
	h := bits.RotateLeft64(i*0x9E3779B97F4A7C15, 32) * 0xD6E8FEB86659FD93
	text = append(text, 'u', ':')
	for shift := 60; shift >= 0; shift -= 4 {
		text = append(text, digits[h>>shift&15])
	}
	return text
}

// key returns the text of key i in memory of its own.
func key(i int) string {
	return string(appendKey(make([]byte, 0, keyLen), uint64(i)))
}

// stream is the keys of many requests, one after the other, as they arrive:
// the text of a request's key has just been written, lies in the processor's
// cache, and is not the text the limiter may have kept.
type stream string

// newStream returns the keys that draw picks, n of them.
func newStream(n int, draw func() int) stream {
	var text strings.Builder
	text.Grow(n * keyLen)
	buf := make([]byte, 0, keyLen)
	for range n {
		text.Write(appendKey(buf, uint64(draw())))
	}
	return stream(text.String())
}

// take has l decide on each key and returns how many it admitted.
func (s stream) take(l interface{ Take(string) bool }) (admitted int) {
	for ; len(s) > 0; s = s[keyLen:] {
		if l.Take(string(s[:keyLen])) {
			admitted++
		}
	}
	return admitted
}

// zipfExponent makes the busiest of a million keys an eighth of all requests.
const zipfExponent = 1.1

// zipfDraw picks key k of n with a probability in proportion to
// (1+k)^-zipfExponent.
func zipfDraw(n int, seed int64) func() int {
	z := rand.NewZipf(rand.New(rand.NewSource(seed)), zipfExponent, 1, uint64(n-1))
	return func() int { return int(z.Uint64()) }
}

// uniformDraw picks any key of n alike.
func uniformDraw(n int, seed int64) func() int {
	r := rand.New(rand.NewSource(seed))
	return func() int { return r.Intn(n) }
}
