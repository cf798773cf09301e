package driver

import (
	"encoding/binary"
	"errors"

	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/savedlimit"
)

// formatVersion begins the bytes of a state.
const formatVersion = 1

// AppendBinary appends the state to b, with the numbers of its limit: a program that reads it may have other numbers. The
// zero State has no bytes. It never returns an error.
func (s State) AppendBinary(b []byte) ([]byte, error) {
	if s.limit == nil {
		return b, nil
	}
	numbers := savedlimit.Of(s.limit)
	b = numbers.Append(append(b, formatVersion))
	if s.replica.Params.Inline() {
		return appendState(b, s.replica.State), nil
	}
	for _, w := range s.replica.Words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b, nil
}

// UnmarshalBinary makes the state that AppendBinary has written. It returns an error, and changes nothing, for bytes that
// do not have the form of a state of this version. It trusts the numbers in them: clients must not write these bytes.
func (s *State) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		*s = State{}
		return nil
	}
	if b[0] != formatVersion {
		return errors.New("driver: the bytes are not a state of this version")
	}
	numbers, rest, ok := savedlimit.Read(b[1:])
	if !ok || len(rest)%wordBytes != 0 {
		return errCut
	}
	l, err := numbers.Limit("")
	if err != nil {
		return err
	}
	read := State{limit: l, replica: algo.Replica{Params: l.Params()}}
	if l.Params().Inline() {
		if len(rest) != stateBytes {
			return errCut
		}
		read.replica.State = readState(rest)
		*s = read
		return nil
	}
	for ; len(rest) > 0; rest = rest[wordBytes:] {
		read.replica.Words = append(read.replica.Words, binary.LittleEndian.Uint64(rest))
	}
	if !l.Params().CheckWords(read.replica.Words) {
		return errCut
	}
	*s = read
	return nil
}

// AppendBinary appends the state of the bans to b. The zero BanState has no bytes. It never returns an error.
func (b BanState) AppendBinary(dst []byte) ([]byte, error) {
	if b.state == (algo.State{}) {
		return dst, nil
	}
	return appendState(append(dst, formatVersion), b.state), nil
}

// UnmarshalBinary makes the state that AppendBinary has written. It returns an error, and changes nothing, for other
// bytes.
func (b *BanState) UnmarshalBinary(p []byte) error {
	switch {
	case len(p) == 0:
		b.state = algo.State{}
	case len(p) != 1+stateBytes || p[0] != formatVersion:
		return errors.New("driver: the bytes are not a state of bans")
	default:
		b.state = readState(p[1:])
	}
	return nil
}

const (
	wordBytes  = 8
	stateBytes = 2 * wordBytes
)

var errCut = errors.New("driver: the bytes of a state are damaged")

func appendState(b []byte, s algo.State) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(s.T)), s.V)
}

func readState(b []byte) algo.State {
	return algo.State{T: int64(binary.LittleEndian.Uint64(b)), V: binary.LittleEndian.Uint64(b[wordBytes:])}
}
