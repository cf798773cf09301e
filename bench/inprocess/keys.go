package inprocess

import (
	"math/rand"
	"strings"

	"github.com/sluicehq/sluice/bench/figures"
)

// appendKey appends the text of key i.
func appendKey(text []byte, i uint64) []byte { return figures.AppendKey(text, 'u', i) }

// key returns the text of key i in memory of its own.
func key(i int) string { return figures.Key('u', i) }

// keyLen is the length of every key.
const keyLen = figures.KeyLen

// A stream is the keys of many requests, one after the other. As in a service, the text of a key was
// just written, is in the processor's cache, and is not the text that the limiter may have kept.
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

// take takes one unit of each key and returns how many were admitted.
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

// zipfDraw picks key k of n with a probability proportional to (1+k)^-zipfExponent.
func zipfDraw(n int, seed int64) func() int {
	z := rand.NewZipf(rand.New(rand.NewSource(seed)), zipfExponent, 1, uint64(n-1))
	return func() int { return int(z.Uint64()) }
}

// debtors is how many keys of a mix return so soon that they are always in debt.
const debtors = 300

// mixDraw picks every key of n with the same probability, but one request in ten has one of the debtors,
// in turn.
func mixDraw(n int, seed int64) func() int {
	uniform, i := uniformDraw(n, seed), 0
	return func() int {
		if i++; i%10 == 0 {
			return i / 10 % min(debtors, n)
		}
		return uniform()
	}
}

// uniformDraw picks every key of n with the same probability.
func uniformDraw(n int, seed int64) func() int {
	r := rand.New(rand.NewSource(seed))
	return func() int { return r.Intn(n) }
}
