package memory

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"

	"github.com/sluicehq/sluice"
)

// location says where the state of a limit's key belongs.
type location struct {
	key, tag uint64
	v        *version
	stripe   *stripe
}

// locate hashes a key, together with the identity of its limit.
func (s *Store) locate(v *version, k sluice.Key) location {
	key := s.hashKey(v.id, k)
	return location{key, s.hashTag(v, k), v, s.stripeOf(key)}
}

// hashKey returns the first half of the identity, which gives the stripe and the position. It
// depends on the limit's name, not on its algorithm.
func (s *Store) hashKey(id [2]uint64, k sluice.Key) uint64 {
	// The number of parts is a part of the identity.
	h := s.first.hash(k.Text()) ^ (id[0] + uint64(k.Len())*0x9e3779b97f4a7c15)
	if h == 0 {
		return 1 // zero marks an empty entry
	}
	return h
}

// hashTag returns the second half of the identity, which also depends on the algorithm, joined
// with the version.
func (s *Store) hashTag(v *version, k sluice.Key) uint64 {
	return makeTag(s.second.hash(k.Text())^v.id[1], v.index)
}

// stripeOf returns the stripe of a key by its low bits; the high bits give the position in the
// table.
func (s *Store) stripeOf(key uint64) *stripe {
	return &s.stripes[key&uint64(len(s.stripes)-1)]
}

// These turn the key of a state into the key of its ban, and the identity of a limit into the key of
// the state that new keys share.
const (
	banAside      = 0x6a09e667f3bcc909
	overflowAside = 0xbb67ae8584caa73b
)

// ban returns the location of a key's ban. All algorithms under the limit's name share this
// location. It is in the same stripe as the key, under the same lock.
func (p location) ban() location {
	p.key = p.stripe.aside(p.key ^ banAside)
	p.tag = makeTag(p.tag^p.v.algorithm, banVersion)
	return p
}

// overflow returns the location of the state that new keys of a limit share when the store is
// full. There is one in each stripe.
func (s *Store) overflow(p *location) location {
	o := *p
	o.key = p.stripe.aside(p.v.id[0] ^ overflowAside)
	o.tag = makeTag(p.v.id[1], p.v.index)
	return o
}

// aside returns the given key moved to this stripe: only the bits that give the stripe differ.
func (sp *stripe) aside(key uint64) uint64 {
	mask := uint64(len(sp.store.stripes) - 1)
	if key = key&^mask | uint64(sp.number); key == 0 {
		return mask + 1
	}
	return key
}

// folded is a seeded hash by folded multiplication, as in wyhash (Wang Yi, 2019). It combines
// eight bytes at a time with a secret, multiplies, and combines the halves of the product. All bytes
// go through two multiplications: after one, keys that differ in few bits crowd together under one seed
// in some hundreds, and a table has no room at its end. Two such hashes, with independent secrets, make
// the two halves of a key's identity. It is the same function in all processes, because saved states
// must be found again.
type folded struct{ seed [4]uint64 }

func newFolded() folded {
	var random [4 * 8]byte
	_, _ = rand.Read(random[:]) // it never fails
	var f folded
	for i := range f.seed {
		f.seed[i] = binary.LittleEndian.Uint64(random[8*i:]) | 1
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
	var last uint64 // the last eight bytes, which may overlap the bytes before
	if n >= 8 {
		i := 0
		for ; i+16 < n; i += 16 {
			h = fold(word(text[i:])^f.seed[1], word(text[i+8:])^h)
		}
		if i+8 < n {
			h = fold(word(text[i:])^f.seed[2], h)
		}
		last = word(text[n-8:])
	} else {
		for i := range n {
			last = last<<8 | uint64(text[i])
		}
	}
	return fold(fold(last^f.seed[3], h)^f.seed[1], f.seed[2])
}

// word reads eight bytes.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
