package guard

import (
	"fmt"
	"math/big"
	"strings"
)

// Share is a part of the whole, Of/Parts, more than zero and up to one: {1, 4} is
// a fourth. The zero Share stands for the default where one is asked for.
//
// A limit is scaled to it number by number. Rates of buckets are exact, or the nearest below
// that can be counted. A burst, a debt, the count of a window or log, and the maximum of a
// concurrency limit are rounded down, to one at least; queues are rounded down, to none. Least
// intervals grow by as much as rates shrink, up to the period. Times stay as they are. The
// floor of a request is rounded down, and leaves at least one unit.
//
// N processes with a share of 1/N thus admit no more than the limit together, as long as
// each number is N or more; of a smaller one, each process has one unit, N in all. A leaky bucket
// lets one more depart at once in each process.
type Share struct {
	Of, Parts int64
}

// maxParts bounds the parts of a share.
const maxParts = 1_000_000

// ParseShare reads a share written as 1/4, 0.25 or 25%.
func ParseShare(text string) (Share, error) {
	number, percent := strings.CutSuffix(text, "%")
	r, ok := new(big.Rat), len(text) <= 32 && !strings.ContainsAny(text, "eEpPxX_")
	if ok {
		r, ok = r.SetString(number)
	}
	if !ok || percent && strings.Contains(number, "/") {
		return Share{}, fmt.Errorf("guard: share %q is no number; write it as in 1/4, 0.25 or 25%%", text)
	}
	if percent {
		r.Mul(r, big.NewRat(1, 100))
	}
	if !r.Num().IsInt64() || !r.Denom().IsInt64() {
		return Share{}, fmt.Errorf("guard: share %q has too many digits; give up to six", text)
	}
	s := Share{r.Num().Int64(), r.Denom().Int64()}
	if err := s.check(); err != nil {
		return Share{}, fmt.Errorf("guard: share %w", err)
	}
	return s, nil
}

// String returns the share as ParseShare reads it.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Of, s.Parts) }

// MarshalText writes the share as String does.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a share as ParseShare does.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShare(string(text))
	return err
}

// check reports why s is no share.
func (s Share) check() error {
	if s.Of < 1 || s.Parts < s.Of || s.Parts > maxParts {
		return fmt.Errorf("is %v; give more than 0 and up to 1, of no more than %d parts", s, maxParts)
	}
	return nil
}
