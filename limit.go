package sluice

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/sluicehq/sluice/algo"
)

// maxUnits bounds every count of units.
const maxUnits = algo.MaxCount

// Limit is a name, an algorithm and its numbers: an immutable, validated value.
// State is kept per name and key. Two limits of one name are two versions of
// the same limit: the state of a key is converted to the numbers it is asked with, keeping
// what has been used. A change of the algorithm starts anew.
type Limit struct {
	name      string
	algorithm Algorithm
	params    algo.Params
	id        [2]uint64
	// leaseless is 1 for a limit whose requests need no member, for a quick check.
	leaseless uint64
}

// NewLimit makes a limit. Without a name it is identified by its numbers. The
// error is a *LimitError.
func NewLimit(name string, a Algorithm) (*Limit, error) {
	if a == nil {
		return nil, &LimitError{Limit: name, Field: "Algorithm", Problem: "is missing; give one such as sluice.TokenBucket"}
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
	l.id = [2]uint64{binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])}
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

// Name returns the name under which the limit's state is kept.
func (l *Limit) Name() string { return l.name }

// Algorithm returns the algorithm and its numbers, as NewLimit was given them.
func (l *Limit) Algorithm() Algorithm { return l.algorithm }

// Capacity returns the most units that the limit can hold at once: the burst,
// the count of a window, the places in a queue and beyond.
func (l *Limit) Capacity() int64 { return l.params.Capacity }

// Params returns the numbers as stores compute with them. They are not to be changed.
func (l *Limit) Params() *algo.Params { return &l.params }

// ID returns 128 bits that identify the name.
func (l *Limit) ID() [2]uint64 { return l.id }

// String returns the name and the numbers.
func (l *Limit) String() string {
	if text := l.algorithm.String(); text != l.name {
		return fmt.Sprintf("%s: %s", l.name, text)
	}
	return l.name
}
