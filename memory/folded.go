package memory

import (
	"math/bits"
	"math/rand/v2"
)

// folded is a seeded hash by folded multiplication, as in wyhash (Wang Yi, 2019):
// eight bytes at a time are combined with a secret and multiplied, and the halves of the
// product are combined. It is half the identity of a key; the other half is another hash.
type folded struct{ seed [4]uint64 }

func newFolded() folded {
	var f folded
	for i := range f.seed {
		f.seed[i] = rand.Uint64() | 1
	}
	return f
}

// fold multiplies two words into one.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (f *folded) hash(text string) uint64 {
	n := len(text)
	h := f.seed[0] ^ uint64(n)
	if n >= 8 {
		i := 0
		for ; i+16 < n; i += 16 {
			h = fold(word(text[i:])^f.seed[1], word(text[i+8:])^h)
		}
		if i+8 < n {
			h = fold(word(text[i:])^f.seed[2], h)
		}
		// The last eight bytes, which may overlap those before.
		return fold(word(text[n-8:])^f.seed[3], h)
	}
	var tail uint64
	for i := range n {
		tail = tail<<8 | uint64(text[i])
	}
	return fold(tail^f.seed[3], h)
}

// word reads eight bytes.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
