package memory

import (
	"encoding/binary"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/savedlimit"
)

// savedLimit is a limit in saved states: the number by which states refer to it, its name, and the
// numbers of its algorithm.
type savedLimit struct {
	number  uint64
	name    string
	numbers savedlimit.Numbers
}

// describeLimit returns what is saved about a limit.
func describeLimit(number uint64, l *sluice.Limit) savedLimit {
	return savedLimit{number, l.Name(), savedlimit.Of(l)}
}

// append appends the limit to a block.
func (s *savedLimit) append(b []byte) []byte {
	return s.numbers.Append(appendString(binary.AppendUvarint(b, s.number), s.name))
}

// readLimit reads what append has written.
func readLimit(f *fields) (s savedLimit) {
	s.number, s.name = f.uvarint(), f.string()
	var ok bool
	if s.numbers, f.rest, ok = savedlimit.Read(f.rest); !ok {
		f.failed = true
	}
	return s
}

// limit makes the limit again.
func (s *savedLimit) limit() (*sluice.Limit, error) {
	l, err := s.numbers.Limit(s.name)
	if err != nil {
		return nil, damaged("%v", err)
	}
	return l, nil
}
