package sluice

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/sluicehq/sluice/algo"
)

// maxUnits bounds every count of units.
const maxUnits = algo.MaxCount

// kindShift puts the algorithm into the highest bits of an ID, which stores keep that cut
// it short.
const kindShift = 56

// Limit is a name, an algorithm and its numbers: an immutable, validated value.
// State is kept per name, algorithm and key. Two limits of one name and algorithm are two
// versions of the same limit: the state of a key is converted to the numbers it is asked with,
// keeping what has been used. Two of one name and different algorithms count apart, each for
// itself, and share their bans.
type Limit struct {
	name      string
	algorithm Algorithm
	params    algo.Params
	id        [2]uint64
	nameID    [2]uint64
	// leaseless is 1 for a limit whose requests need no member, for a quick check.
	leaseless uint64
}

// NewLimit makes a limit. Without a name it is identified by its numbers. The
// error is a *LimitError.
func NewLimit(name string, a Algorithm) (*Limit, error) {
	if a == nil {
		return nil, &LimitError{Limit: name, Field: "Algorithm", Problem: "is missing", Remedy: "give one such as sluice.TokenBucket"}
	}
	l := &Limit{name: name, algorithm: a}
	if err := a.compile(&l.params); err != nil {
		err.Limit = name
		return nil, err
	}
	if l.params.Kind != algo.KindConcurrency {
		l.leaseless = 1
	}
	if name == "" {
		l.name = a.String()
	}
	sum := sha256.Sum256([]byte(l.name))
	l.nameID = [2]uint64{binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])}
	l.id = [2]uint64{l.nameID[0], l.nameID[1] ^ uint64(l.params.Kind)<<kindShift}
	return l, nil
}

// MustLimit is NewLimit for limits that are written in the program; it panics on an error.
func MustLimit(name string, a Algorithm) *Limit {
	l, err := NewLimit(name, a)
	if err != nil {
		panic(err)
	}
	return l
}

// Name returns the name under which, with the algorithm, the limit's state is kept.
func (l *Limit) Name() string { return l.name }

// Algorithm returns the algorithm and its numbers, as NewLimit was given them.
func (l *Limit) Algorithm() Algorithm { return l.algorithm }

// Capacity returns the most units that the limit can hold at once: the burst,
// the count of a window, the places in a queue and beyond.
func (l *Limit) Capacity() int64 { return l.params.Capacity }

// Params returns the numbers as stores compute with them. They are not to be changed.
func (l *Limit) Params() *algo.Params { return &l.params }

// ID returns 128 bits that identify the name and the algorithm, whatever its numbers: what
// states are kept under. A token bucket with a warm-up is another algorithm than one without.
func (l *Limit) ID() [2]uint64 { return l.id }

// NameID returns 128 bits that identify the name alone: what bans are kept under. Their
// first half is that of ID, so that a store can keep the two together.
func (l *Limit) NameID() [2]uint64 { return l.nameID }

// String returns the name and the numbers.
func (l *Limit) String() string {
	if text := l.algorithm.String(); text != l.name {
		return fmt.Sprintf("%s: %s", l.name, text)
	}
	return l.name
}
